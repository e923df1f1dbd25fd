#!/bin/sh
# Runs CPython 3.14, of Debian's unstable suite, in this tree: `tools/python314.sh FOLDER [ARGUMENT OF PYTHON ...]`, as root;
# `tools/python314.sh FOLDER -m pytest tests/api` runs tests.
#
# FOLDER, outside of this tree, becomes the root of such a system, with torch (8 GB in all); a second call finds it done. The
# environment variable TORCH names another version of torch. Needs debootstrap.
set -eu

root=${1:?"usage: tools/python314.sh FOLDER [ARGUMENT OF PYTHON ...]"}
shift
tree=$(cd "$(dirname "$0")/.." && pwd)
packages=python3.14,python3.14-dev,python3.14-venv,libpython3.14-testsuite,g++,make,procps,ca-certificates

inside() {
    HOME=/root PATH=/env/bin:/usr/sbin:/usr/bin:/bin LC_ALL=C.UTF-8 TRACER_TRY_PYTHON=1 \
        chroot "$root" /bin/sh -c 'cd /tree && exec "$@"' sh "$@"
}

leave() {
    for each in tree proc dev; do
        umount "$root/$each" || true
    done
}

[ -x "$root/usr/bin/python3.14" ] || debootstrap --variant=minbase --include="$packages" sid "$root"
mkdir -p "$root/tree"
trap leave EXIT
mount --bind "$tree" "$root/tree"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
if [ ! -e "$root/env/installed" ]; then
    # Whom this machine trusts, where that is more than Debian's list: a company's proxy.
    cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root/etc/ssl/certs/ca-certificates.crt"
    inside python3.14 -m venv /env
    inside pip install --quiet --no-cache-dir "torch==${TORCH:-2.14.1}" "setuptools>=77" wheel
    inside pip install --quiet --no-cache-dir --no-build-isolation --editable ".[test,zoo]"
    touch "$root/env/installed"
fi
inside python setup.py --quiet build_ext --inplace
inside python "$@"
