#!/usr/bin/env bash
# Gets a Python for a system that this machine is not, to test a wheel for it: wheels.py test FILE --run "COMMAND".
#
# Usage: interpreters.sh aarch64 FOLDER   Debian's Python for AArch64, which QEMU runs
#        interpreters.sh musl FOLDER      Debian's source of Python, built with musl's libc
#
# Prints the COMMAND. Needs Debian 12 on x86-64, with qemu-user-static for the first. The second needs gcc, make,
# musl-tools, linux-libc-dev, and a $PYTHON with ziglang; FOLDER/wheels then has ml_dtypes, for --find-links. apt works
# in FOLDER alone, and nothing is installed.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,9p' "$0" >&2; exit 2; }
mkdir -p "$2"
folder=$(cd "$2" && pwd)
log=$folder/log

keyring="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
# Where this system takes its packages from.
debian=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' | awk '$2 == "bookworm" && !seen++ { print $1 }')

# Lets apt work in `folder` for an architecture: `apt_for ARCHITECTURE LINE-OF-SOURCES ...`.
apt_for() {
    mkdir -p "$folder"/apt/{lists/partial,archives/partial,dpkg}
    : > "$folder/apt/dpkg/status"
    printf '%s\n' "${@:2}" > "$folder/apt/sources.list"
    cat > "$folder/apt/conf" << END
APT::Architecture "$1";
APT::Architectures { "$1"; };
APT::Install-Recommends "false";
Dir::Etc::sourcelist "$folder/apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$folder/apt/lists";
Dir::State::status "$folder/apt/dpkg/status";
Dir::Cache "$folder/apt";
END
    export APT_CONFIG=$folder/apt/conf
    apt-get update >> "$log" 2>&1
}

aarch64() {
    apt_for arm64 "deb $keyring $debian bookworm main"
    apt-get install --download-only --yes python3 python3-distutils libstdc++6 >> "$log" 2>&1
    for package in "$folder"/apt/archives/*.deb; do dpkg -x "$package" "$folder/root"; done
    echo "qemu-aarch64-static -L $folder/root $folder/root/usr/bin/python3"
}

musl() {
    apt_for amd64 "deb-src $keyring $debian bookworm main" "deb $keyring $debian trixie main"
    cd "$folder"
    # numpy's libraries have relative relocations, which musl reads from 1.2.4 on; Debian 12 has 1.2.3.
    apt-get download musl >> "$log" 2>&1
    dpkg -x musl_*.deb loader
    apt-get source --download-only zlib libffi python3.11 >> "$log" 2>&1
    # musl-gcc looks only into musl's folders, and musl has no headers of the kernel.
    mkdir -p headers
    ln -sfn /usr/include/linux headers/linux
    ln -sfn /usr/include/asm-generic headers/asm-generic
    ln -sfn /usr/include/x86_64-linux-gnu/asm headers/asm
    # Python compares the name that its compiler prints with the one that it finds by itself.
    cat > compiler << 'END'
#!/bin/sh
case $1 in
    -print-multiarch | --print-multiarch) echo x86_64-linux-musl ;;
    *) exec musl-gcc "$@" ;;
esac
END
    chmod +x compiler
    local flags="-O2 -fPIC -idirafter $folder/headers -I$folder/root/include"
    export CC=$folder/compiler CFLAGS=$flags LDFLAGS="-L$folder/root/lib"
    export PKG_CONFIG_LIBDIR=$folder/root/lib/pkgconfig
    for package in zlib libffi python3.11; do
        mkdir -p "$package"
        tar xf "$package"_*.orig.tar.* -C "$package" --strip-components=1
        local options=(--prefix="$folder/root")
        case $package in
            zlib) options+=(--static) ;;
            libffi) options+=(--disable-shared --disable-docs --disable-multi-os-directory) ;;
            python3.11) options+=(--without-ensurepip --disable-test-modules) ;;
        esac
        (cd "$package" && ./configure "${options[@]}" && make -j2 && make install) >> "$log" 2>&1
    done
    ml_dtypes >> "$log" 2>&1
    echo "$folder/loader/usr/lib/ld-musl-x86_64.so.1 $folder/root/bin/python3.11"
}

# PyPI has no wheel of ml_dtypes for musl, and musl-gcc compiles no C++: zig does. Later versions need CMake.
ml_dtypes() {
    local python=${PYTHON:-python3} zig
    zig=$("$python" -c "import ziglang; print(ziglang.__path__[0] + '/zig')")
    "$python" -m pip download --no-deps --no-binary ml_dtypes --dest "$folder" "ml_dtypes==0.5.4"
    "$python" -m pip install --target "$folder/packages" --upgrade --platform musllinux_1_2_x86_64 \
        --python-version 3.11 --only-binary :all: numpy setuptools wheel
    mkdir -p ml_dtypes
    tar xf ml_dtypes-*.tar.gz -C ml_dtypes --strip-components=1
    cd ml_dtypes
    export CC="$zig cc -target x86_64-linux-musl" CXX="$zig c++ -target x86_64-linux-musl"
    export LDSHARED="$CC -shared" LDCXXSHARED="$CXX -shared" PYTHONPATH=$folder/packages
    "$folder/loader/usr/lib/ld-musl-x86_64.so.1" "$folder/root/bin/python3.11" setup.py bdist_wheel --dist-dir "$folder/wheels"
}

case $1 in
    aarch64 | musl) "$1" || { tail -5 "$log" >&2; exit 1; } ;;
    *) echo "interpreters.sh: $1 (want aarch64 or musl)" >&2; exit 2 ;;
esac
