"""Log settings for the brokers and tools: one console appender, in the words of both log4j generations.

Kafka 3.9 reads log4j.properties (reload4j), Kafka 4 reads log4j2.properties; the other file is harmless.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

Stream = Literal["stdout", "stderr"]

_PATTERN: Final = "[%d] %p %m (%c)%n"


_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def write_log_config(folder: Path, level: str, stream: Stream, loggers: Mapping[str, str] = _NONE) -> None:
    """Write both files into `folder`. `loggers`: levels of single loggers."""
    target = "System.out" if stream == "stdout" else "System.err"
    (folder / "log4j.properties").write_text(
        f"log4j.rootLogger={level}, console\n"
        "log4j.appender.console=org.apache.log4j.ConsoleAppender\n"
        f"log4j.appender.console.target={target}\n"
        "log4j.appender.console.layout=org.apache.log4j.PatternLayout\n"
        f"log4j.appender.console.layout.ConversionPattern={_PATTERN}\n"
        + "".join(f"log4j.logger.{name}={own}\n" for name, own in loggers.items()),
        encoding="utf-8",
    )
    (folder / "log4j2.properties").write_text(
        "status=error\n"
        "appender.console.type=Console\n"
        "appender.console.name=console\n"
        f"appender.console.target={'SYSTEM_OUT' if stream == 'stdout' else 'SYSTEM_ERR'}\n"
        "appender.console.layout.type=PatternLayout\n"
        f"appender.console.layout.pattern={_PATTERN}\n"
        f"rootLogger.level={level}\n"
        "rootLogger.appenderRef.console.ref=console\n"
        + "".join(f"logger.{n}.name={name}\nlogger.{n}.level={own}\n" for n, (name, own) in enumerate(loggers.items())),
        encoding="utf-8",
    )


def log_options(folder: Path) -> list[str]:
    """JVM options that make a process use the files of `folder`."""
    return [
        f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}",
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
    ]
