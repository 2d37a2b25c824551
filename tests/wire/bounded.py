"""How long property tests run: a fixed number of examples, on a machine that may be busy with other things."""

from hypothesis import HealthCheck, settings

bounded = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
