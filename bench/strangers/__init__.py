"""One honest client beside strangers, attack by attack: what they cost it, and the gateway.

    python -m bench.strangers --only half_open handshakes_one

The honest client writes 1 MB/s, asks 1,000 small requests a second, and reads in a consumer group, by TLS and a login.
Its p99 is measured right before each attack and beside it. `strangers.py` has the attacks, a process each, which give
way to everybody else on the machine (nice 19). `attack_cores` says how much of it they had: an attack that got next to
nothing was none.
"""
