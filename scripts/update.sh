#!/usr/bin/env bash
# Writes the files that tests compare with the sources: the public names of the crate, the C header, the command's page
# and its list of options, the rows of docs/types.md, the npm package's lists of types, and the hashes that the
# WebAssembly modules are compared with. Then shows what has changed.
#
#   bash scripts/update.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Each test that writes, by its name.
tests=(
    the_header_is_that_of_the_sources
    the_list_of_options_is_up_to_date
    the_page_of_the_command_is_up_to_date
    the_types_are_the_table
    the_table_of_arrays_has_every_type
    the_declarations_have_every_type
    the_hashes_are_those_of_the_library
)
for test in "${tests[@]}"; do
    grep --quiet --recursive "fn $test()" crates/*/src crates/*/tests || {
        echo "scripts/update.sh: there is no test $test" >&2
        exit 1
    }
done
export UPDATE_API=1 UPDATE_HEADER=1 UPDATE_OPTIONS=1 UPDATE_TYPES=1 UPDATE_NPM=1 UPDATE_BITS=1
cargo test --quiet --no-fail-fast -p onnx-cast-capi -p onnx-cast-cli -p onnx-cast-wasm --lib \
    --test header --test command --test package --test bits -- "${tests[@]}"
cargo test --quiet --locked --test public_api -- --ignored
git status --short -- crates/onnx-cast/public-api.txt crates/onnx-cast-capi/include crates/onnx-cast-cli/tests/data crates/onnx-cast-wasm/tests/data \
    docs/command.md docs/types.md npm
