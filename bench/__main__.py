"""`make bench`: every figure of this machine, one after the other.

    python -m bench [encoder] [commit] [sinks] [state] [throughput] [latency]

Each also runs by itself and takes options: python -m bench.throughput --help.
"""

import subprocess
import sys

SET = ("encoder", "commit", "sinks", "state", "throughput", "latency")


def main() -> None:
    wanted = sys.argv[1:] or SET
    unknown = sorted(set(wanted) - set(SET))
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; there are {', '.join(SET)}")
    for name in wanted:
        print(f"\n== {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"bench.{name}", "--json"], check=True)


if __name__ == "__main__":
    main()
