"""`--conf` of jobs: settings of Spark, but for secrets, which a command line would show to everybody."""

from __future__ import annotations

import pytest
import typer

from gateway.cli.jobs.common import is_secret, settings_of


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("spark.ssl.keyPassword", "x", True),
        ("spark.authenticate.secret", "x", True),
        ("spark.hadoop.fs.s3a.secret.key", "x", True),
        ("spark.authenticate.secret.file", "/run/secret", False),
        ("spark.kubernetes.authenticate.driver.oauthTokenFile", "/run/token", False),
        ("spark.authenticate.enableSaslEncryption", "true", False),
        ("spark.executor.memory", "2g", False),
    ],
)
def test_what_is_a_secret(key: str, value: str, wanted: bool) -> None:
    assert is_secret(key, value) is wanted


def test_a_secret_is_refused_with_the_remedy_and_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        settings_of(["spark.executor.memory=2g", "spark.authenticate.secret=hunter2"])
    assert ended.value.exit_code == 2
    told = capsys.readouterr().err
    assert "--conf spark.authenticate.secret" in told
    assert "spark-defaults.conf" in told
    assert "hunter2" not in told


def test_one_that_is_no_pair_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        settings_of(["spark.executor.memory"])
    assert "--conf takes KEY=VALUE" in capsys.readouterr().err
    assert settings_of(None) == {}
