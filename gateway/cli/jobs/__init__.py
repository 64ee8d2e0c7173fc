"""`lockgate job`: the Spark jobs, one file per command."""
