"""What the jobs are given: topics, tables in files. Bad input is a ValueError of one line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegralType, StructField, StructType

_FORMATS: Final = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}


def topic_names(given: list[str]) -> list[str]:
    """Topics, each named once; an argument may hold several with commas between."""
    return list(dict.fromkeys(name.strip() for text in given for name in text.split(",") if name.strip()))


def _as(column: Column, of_file: DataType, field: StructField) -> Column:
    """A column as the table wants it; null where a value cannot be that, 12.9 for a whole number being no 12."""
    if isinstance(field.dataType, IntegralType) and not isinstance(of_file, IntegralType):
        whole = F.regexp_like(column.cast("string"), F.lit(r"^\s*[+-]?\d{1,19}\s*$"))
        return F.when(whole, column.cast("string").try_cast(field.dataType))
    return column.try_cast(field.dataType)


def read_table(spark: SparkSession, path: str, table: StructType, *, optional: Mapping[str, object]) -> DataFrame:
    """Read a CSV (with header), JSON-lines or Parquet file, or a folder of such, as a table.

    A JSON or Parquet number with a fraction is no whole number, nor is a text that is no number.

    Args:
        table: its columns; others in the file are left out.
        optional: columns that may be missing, and their value then.

    Raises:
        ValueError: the ending is not known, a column is missing, or a row lacks a value.
    """
    ending = Path(path.rstrip("/")).suffix.lower()
    if ending not in _FORMATS:
        raise ValueError(f"{path}: the name must end in {', '.join(_FORMATS)}")
    if "://" not in path and not Path(path).exists():
        raise ValueError(f"{path}: no such file")
    found = spark.read.format(_FORMATS[ending]).option("header", "true").load(path)
    chosen = []
    for field in table:
        if field.name in found.columns:
            chosen.append(_as(F.col(field.name), found.schema[field.name].dataType, field).alias(field.name))
        elif field.name in optional:
            chosen.append(F.lit(optional[field.name]).cast(field.dataType).alias(field.name))
        else:
            raise ValueError(f"{path}: there is no column {field.name}")
    rows = found.select(*chosen)
    required = [F.col(field.name).isNull() for field in table if field.name not in optional]
    bad = rows.where(F.greatest(*(one.cast("int") for one in required), F.lit(0)) == 1).take(1)
    if bad:
        raise ValueError(f"{path}: a row lacks a value, or has one of another type: {bad[0].asDict()}")
    return rows
