"""Levels of single loggers, in the words of both log4j generations."""

from pathlib import Path

from gateway.devcluster.logconfig import write_log_config


def test_a_logger_has_a_level_of_its_own(tmp_path: Path) -> None:
    write_log_config(tmp_path, "INFO", "stdout", {"kafka.authorizer.logger": "DEBUG"})
    first = (tmp_path / "log4j.properties").read_text(encoding="utf-8").splitlines()
    second = (tmp_path / "log4j2.properties").read_text(encoding="utf-8").splitlines()
    assert "log4j.rootLogger=INFO, console" in first
    assert "log4j.logger.kafka.authorizer.logger=DEBUG" in first
    assert "rootLogger.level=INFO" in second
    assert {"logger.0.name=kafka.authorizer.logger", "logger.0.level=DEBUG"} <= set(second)
