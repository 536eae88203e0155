#!/usr/bin/env bash
# Runs the tests under valgrind's memcheck, which sees what is read and was never written, and every access to memory
# that is not there, no longer there, or lost. Not part of the test run; a part takes minutes, or half an hour.
#
#   bash scripts/proofs/memcheck.sh                     # all parts
#   bash scripts/proofs/memcheck.sh library             # the tests of crates/onnx-cast, on the portable and the AVX2 backend
#   bash scripts/proofs/memcheck.sh files               # the tests of crates/onnx-cast-file
#   bash scripts/proofs/memcheck.sh c                   # programs in C and C++ around the C interface (scripts/checks/c.py)
#   bash scripts/proofs/memcheck.sh python              # the Python package's tests, where scripts/test.sh has installed it
#
# Needs valgrind. It has no AVX-512, and tells the program so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Threads of ours wait for each other: without fair scheduling one may wait for minutes.
valgrind=(valgrind --quiet --fair-sched=yes)
leaks=(--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite)

# Tests that are left to the test run, by crate and program. Those of every value would take hours here, and hold what
# is rounded twice (below) against the oracle, as do two of texts; of the control register memcheck keeps the rounding
# alone; and the one of the variable starts itself again, where memcheck does not watch and more backends are.
left_out() {
    case $1 in
    onnx-cast/exhaustive) echo every_value_of_16_bits_or_fewer ties_specials_and_random_values_of_wider_sources ;;
    onnx-cast/kernels) echo the_control_register_changes_nothing_and_stays ;;
    onnx-cast/ops) echo the_environment_variable_forces_a_backend ;;
    onnx-cast/strings) echo float_and_double_as_the_standard_library_reads_them texts_beside_the_points_where_a_result_changes ;;
    esac
}

# The test programs of a crate, as the test run builds them.
programs() {
    cargo test --quiet --locked --no-run -p "$1" --lib --tests
    cargo test --quiet --locked --no-run -p "$1" --lib --tests --message-format=json 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | sort
}

# memcheck on the test programs of a crate, one test after the other.
tests_of() {
    local crate=$1 all program name left more log count=0 passed=0 begun=$SECONDS
    log=$(mktemp)
    all=$(programs "$crate")
    # It converts 64-bit integers to float by way of double, which rounds twice: what is compared with that is not,
    # here.
    export ONNX_CAST_TEST_UNCOMPARED=int64:float,uint64:float
    for program in $all; do
        name=$(basename "${program%-*}")
        read -ra left < <(left_out "$crate/$name") || true
        if ! (cd "crates/$crate" && "${valgrind[@]}" "${leaks[@]}" --error-exitcode=9 "$program" --test-threads 1 \
            "${left[@]/#/--skip=}" > "$log" 2>&1); then
            cat "$log"
            return 1
        fi
        more=$(sed -n 's/^test result: ok. \([0-9]*\) passed.*/\1/p' "$log")
        echo "$name: $more tests${left:+, without ${left[*]}}"
        count=$((count + 1)) passed=$((passed + more))
    done
    rm "$log"
    echo "$crate: $count programs, $passed tests, no error, $(((SECONDS - begun) / 60)) minutes"
}

library() { tests_of onnx-cast; }

files() { tests_of onnx-cast-file; }

c() { .venv/bin/python scripts/checks/c.py; }

# Python and numpy have errors of their own, on purpose: those count that have a frame of the package's. PyO3 keeps the
# members of a class, which is made once, where memcheck takes them for lost; that these are found tells that it sees
# the package. Left out are the tests of the command's page, which is not the package's, and of memory that Python
# traces, in which it loses some.
python() {
    local log tests="bindings/python/tests"
    log=$(mktemp -d)
    PYTHONMALLOC=malloc "${valgrind[@]}" --leak-check=full --show-leak-kinds=definite --num-callers=40 --error-limit=no \
        --child-silent-after-fork=yes --xml=yes --xml-file="$log/%p.xml" .venv/bin/python -m pytest -p no:cacheprovider \
        -k "not the_page_is_what_the_command_writes and not without_an_allocation" \
        "$tests"/test_{cast,columns,dtypes,errors,files,report,stats,threads}.py
    .venv/bin/python - "$log"/*.xml <<'PYTHON'
import sys
from xml.etree import ElementTree

errors, package, mistakes = 0, 0, 0
for path in sys.argv[1:]:
    for error in ElementTree.parse(path).iter("error"):
        frames = list(error.iter("frame"))
        errors += 1
        if any("/onnx_cast/" in (frame.findtext("obj") or "") for frame in frames):
            package += 1
            if not any("create_type_object" in (frame.findtext("fn") or "") for frame in frames):
                mistakes += 1
                print(ElementTree.tostring(error, encoding="unicode"))
print(f"Python: {errors} errors, {package} with the package, {package - mistakes} of these of members of classes")
sys.exit("memcheck did not see the package" if not package else mistakes > 0)
PYTHON
    rm -r "$log"
}

type valgrind > /dev/null
# Some tests of the file crate read files of other packages, which this makes, and the Python for the rest.
python3 scripts/setup.py
[ $# -gt 0 ] || set -- library files c python
for part in "$@"; do
    printf '\n=== %s\n' "$part"
    case $part in
    library | files | c | python) "$part" ;;
    *)
        echo "usage: scripts/proofs/memcheck.sh [library] [files] [c] [python]" >&2
        exit 2
        ;;
    esac
done
