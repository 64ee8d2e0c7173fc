"""The fuzzer of whole conversations: what strangers, clients, peers and callers of REST say to a shipped gateway.

    make fuzz SECONDS=600               as many conversations as that takes, and the sums
    make fuzz SEED=7                    one of them as a story
    python -m tests.fuzz --file build/fuzz/seed-7.json      one that was made small
    make fuzz-mutations                 faults put into the gateway: each must be found

The gateway is the simulation's (docs/background/simulation.md): all of `lockgate serve` from `Gateway` down, in virtual
time, before brokers in memory that ask for a login (`login_broker.py`). It is set up once, in the midst of a migration
(`stage.py`), and copied by `fork` for each conversation (`run.py`): none knows of another, and each is the same again.

A seed becomes a conversation (`generate.py`). It begins with what real clients say, over every API and version that
is offered (`values.py`, `corpus.py`), with logins whole, in part, refused or ended; then fields, lengths, the order
and the cuts of it are changed (`mutate.py`). In between answers are not taken, connections are reset or half closed,
clusters are slow or gone, peers greet and REST is asked (`callers.py`). It is data (`steps.py`), so what fails is made
small (`shrink.py`).

After each step `judge.py` looks: was anything touched for somebody whom the target has not accepted (`spies.py`), did a
frame take more than 50 ms of CPU (`loop.py`), is all bounded, was an exception raised that is no answer to anybody.

Below the simulation's seam, and so not here: plain sockets and splicing, TLS, the HTTP of uvicorn.
"""
