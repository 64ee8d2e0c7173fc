"""The classes of a broker, parsed and verified once: brokers that map them start with much less CPU time.

A JVM writes such an archive as it ends (JEP 350, dynamic class data sharing), here the one of a broker that was started
for nothing else. It suits the JVM and the jars that it was made with; with others it is not used, and the broker starts
as it would without.
"""

from pathlib import Path

from gateway.devcluster.home import brokers_folder


def class_archive(kafka_version: str) -> Path:
    """Where the archive of a version is, or would be."""
    return brokers_folder(kafka_version) / "classes.jsa"


def archive_options(kafka_version: str) -> list[str]:
    """JVM options to map the archive of a version, if there is one."""
    archive = class_archive(kafka_version)
    return [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []


def archiving_options(archive: Path) -> list[str]:
    """JVM options to write an archive at the end of the process."""
    return [f"-XX:ArchiveClassesAtExit={archive}"]
