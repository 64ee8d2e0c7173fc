"""The APIs of transactions, one file each."""
