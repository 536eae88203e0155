#!/bin/sh
# Installs the manual's pages and the completions for bash, zsh and fish of an installed onnx-cast. In an unpacked
# release, installs the command too.
#
#   install.sh                                    # under ~/.local
#   install.sh --prefix /usr/local                # elsewhere; with DESTDIR=FOLDER, staged in that folder
#   install.sh --command target/release/onnx-cast # of a command that is not in the path, which stays where it is
#   install.sh --uninstall                        # removes all of it
set -eu

usage() {
    echo "usage: install.sh [--prefix FOLDER] [--command FILE] [--uninstall]" >&2
    exit 2
}

here=$(cd "$(dirname "$0")" && pwd)
prefix=${HOME:-}/.local
command=
uninstall=false
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=${2:?the folder is missing} && shift 2 ;;
        --command) command=${2:?the file is missing} && shift 2 ;;
        --uninstall) uninstall=true && shift ;;
        *) usage ;;
    esac
done
root=${DESTDIR:-}$prefix
manual=$root/share/man/man1
bash=$root/share/bash-completion/completions
zsh=$root/share/zsh/site-functions
fish=$root/share/fish/vendor_completions.d

if $uninstall; then
    rm -f "$manual"/onnx-cast.1 "$manual"/onnx-cast-*.1 "$bash/onnx-cast" "$zsh/_onnx-cast" "$fish/onnx-cast.fish"
    # The command itself, where this is the release that it was installed from.
    ! [ -x "$here/bin/onnx-cast" ] || rm -f "$root/bin/onnx-cast"
    exit
fi

if [ -z "$command" ] && [ -x "$here/bin/onnx-cast" ]; then
    command=$here/bin/onnx-cast
    mkdir -p "$root/bin"
    # Under a name of its own first, so that a command that runs is not written over.
    cp "$command" "$root/bin/.onnx-cast.new"
    mv -f "$root/bin/.onnx-cast.new" "$root/bin/onnx-cast"
fi
command=${command:-$(command -v onnx-cast)} || {
    echo "install.sh: onnx-cast is not in the path (want --command FILE)" >&2
    exit 2
}

mkdir -p "$manual" "$bash" "$zsh" "$fish"
"$command" man >"$manual/onnx-cast.1"
# The page of the command lists those of its subcommands, with dashes as roff has them.
pages=$(sed -n 's/^onnx\\-cast\\-\([a-z]*\)(1)$/\1/p' "$manual/onnx-cast.1" | grep -vx help)
for page in $pages; do
    "$command" man "$page" >"$manual/onnx-cast-$page.1"
done
"$command" completions bash >"$bash/onnx-cast"
"$command" completions zsh >"$zsh/_onnx-cast"
"$command" completions fish >"$fish/onnx-cast.fish"
echo "installed under $root: $(echo "$pages" | wc -l) pages of the manual and that of onnx-cast; completions"
