"""The commands of the pages, run in the order of each page between real clusters: `make test-docs`.

A page is walked from its top to its end (`walk.py`). `tests/support/pages/shown.py` has the marks that say how a block
is run, and what is so before it; `scenes.py` has what they name: topics with records, clients, a link. Everything that
a page means by its names (`source-1:9092`, port 9192, TOPIC) is told to the commands in one place, `stage.py`. Each
command is typed into a terminal; where it asks for a word, that word is typed. What a page shows behind a block is
compared with what the block printed. Between two pages both clusters are emptied.
"""
