"""The metrics of several processes as those of one."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from gateway.telemetry.metrics import Metrics
from gateway.telemetry.numbers import FleetNumbers
from gateway.telemetry.sum_of_processes import counted, summed

ONE = """# HELP a_total Some.
# TYPE a_total counter
a_total{x="1 2",y="a # HELP b"} 3.0
a_total{x="2"} 1.0
# HELP only Of one.
# TYPE only gauge
only 7.0
"""
OTHER = """# HELP a_total Some.
# TYPE a_total counter
a_total{x="2"} 4.0
a_total{x="3"} 5.0
"""


def samples(text: str) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_several_count_is_summed_and_what_one_has_is_kept() -> None:
    found = samples(summed([ONE, OTHER]))
    assert sorted(found.values()) == [3.0, 5.0, 5.0, 7.0]
    assert found["a_total[('x', '2')]"] == 5.0
    assert found["only[]"] == 7.0


def test_one_text_is_as_it_is() -> None:
    assert summed([ONE]) == ONE


def metrics(*, leads: bool, lease_left_s: float, pause_s: float) -> str:
    made = Metrics()
    made.fleet = lambda: FleetNumbers(
        leads=leads,
        lease_left_s=lease_left_s,
        mirrored=3,
        states={"up": 2} if leads else {},
        audit_lost=None,
        state_losses=1,
    )
    made.pause_ended("l", "stopped", pause_s, {"read_ends": pause_s})
    return made.render()[0].decode()


def test_a_gateways_own_metrics_are_those_of_one_process() -> None:
    one = metrics(leads=False, lease_left_s=500.0, pause_s=0.02)
    other = metrics(leads=True, lease_left_s=90.0, pause_s=0.2)
    found = samples(summed([one, other]))
    assert found["lockgate_fleet_leader[]"] == 1.0
    assert found["lockgate_write_lease_seconds[]"] == 90.0
    assert found["lockgate_mirrored_partitions[]"] == 6.0
    assert found["lockgate_state_topic_losses_total[]"] == 1.0  # each process is told of the same loss
    assert found["lockgate_fleet_gateways[('state', 'up')]"] == 2.0
    assert next(value for key, value in found.items() if key.startswith("lockgate_build")) == 1.0
    labels = "[('link', 'l'), ('outcome', 'stopped')]"
    assert found[f"lockgate_write_pause_duration_seconds_count{labels}"] == 2.0
    assert round(found[f"lockgate_write_pause_duration_seconds_sum{labels}"], 6) == 0.22
    assert samples(one).keys() <= found.keys()
    # HELP and TYPE once for each family
    assert summed([one, other]).count("# TYPE lockgate_fleet_leader") == 1


def test_what_only_grows() -> None:
    gauge = "# HELP g Now.\n# TYPE g gauge\ng 4.0\n"
    counter = "# HELP c_total Ever.\n# TYPE c_total counter\nc_total 4.0\n"
    histogram = '# HELP h Long.\n# TYPE h histogram\nh_bucket{le="+Inf"} 1.0\nh_count 1.0\nh_sum 2.0\n'
    assert counted(gauge + counter + gauge + histogram) == counter + histogram
    assert counted("") == ""
