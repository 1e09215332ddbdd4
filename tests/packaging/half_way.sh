#!/bin/sh
# Does a first try that ended half way leave anything that breaks the next? Run in a fresh clone: downloads, a few minutes.
#   half_way.sh [TARGET [PYTHON]]
# Each case makes what `make demo` begins with (.venv/.core), or `make test` (.venv/.dev), fail in its own way, and then
# runs it again.
set -u
target=${1:-.venv/.core}
python=${2:-python3}
broken=$(mktemp -d)
trap 'rm -rf "$broken"' EXIT
printf '#!/bin/sh\nexec %s -c "import sys; sys.modules[\\"ensurepip\\"] = None; sys.argv = sys.argv[1:]; exec(sys.argv.pop(1))" "$@"\n' \
  "$python" > "$broken/no-pip"
printf '#!/bin/sh\nexec %s -c "import sys; sys.modules[\\"venv\\"] = None; sys.argv = sys.argv[1:]; exec(sys.argv.pop(1))" "$@"\n' \
  "$python" > "$broken/no-venv"
chmod +x "$broken"/*
red=0
again() { # CASE: the next try, and whether what it made works
  if make $target PYTHON="$python" > "$broken/log" 2>&1 && .venv/bin/gainful --version > /dev/null; then
    echo "$1: the next try works"
  else
    echo "$1: THE NEXT TRY FAILS"; tail -n 3 "$broken/log"; red=1
  fi
}
must_fail() { # CASE, COMMAND…
  case=$1; shift
  rm -rf "${dead:=$broken/dead}"; mv .venv "$dead" 2> /dev/null || true
  "$@" > "$broken/log" 2>&1 && { echo "$case: it did not fail"; red=1; }
  grep -v -e '^make' -e WARNING "$broken/log" | tail -n 1
  again "$case"
}
must_fail "no venv" make $target PYTHON="$broken/no-venv"
must_fail "no pip" make $target PYTHON="$broken/no-pip"
must_fail "no network" env HTTPS_PROXY=http://127.0.0.1:9 PIP_NO_CACHE_DIR=1 PIP_RETRIES=0 make $target PYTHON="$python"
must_fail "no room" sh -c "ulimit -f 20000; make $target PYTHON=$python"
for seconds in 1 4 10 20 30; do
  must_fail "Ctrl-C after $seconds s" timeout --foreground --signal INT "$seconds" make $target PYTHON="$python"
done
for seconds in 2 15 25; do
  must_fail "killed after $seconds s" timeout --signal KILL "$seconds" make $target PYTHON="$python"
done
exit $red
