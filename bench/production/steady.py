"""`python -m bench.production.steady BOOTSTRAP TOPIC RATE SECONDS`: batches of one record to partition 0.

The rate is steady. Each value begins with the time of day at which it was made, in nanoseconds.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from bench.production.filling import Pipe, batch_of, leaders, produce_frame

VALUE_BYTES: Final = 100


def main() -> None:
    """Write. One that falls behind catches up, so that the rate is kept on the whole."""
    bootstrap, topic, rate, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    (where,) = leaders(bootstrap, topic, 1)
    pipe = Pipe(where)
    began = time.monotonic()
    for number in range(int(rate * seconds)):
        early_s = began + number / rate - time.monotonic()
        if early_s > 0:
            time.sleep(early_s)
        value = time.time_ns().to_bytes(8) + bytes(VALUE_BYTES - 8)
        pipe.send(produce_frame(topic, {0: batch_of([value])}))
    pipe.close()


if __name__ == "__main__":
    main()
