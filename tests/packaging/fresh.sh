#!/bin/sh
# make fresh SUITE=trixie: the demo and the tests on a Debian that holds python3, python3-venv, make and git, and nothing
# else, as an ordinary user. The committed state of the checkout is cloned into it. Needs root and debootstrap.
#   fresh.sh SUITE CHECKOUT [COMMAND]
# ROOTS=DIR keeps the system for the next run; COMMAND replaces "make demo && make test", whose CONSTRAINTS and NEURAL
# come from the environment.
set -eu
suite=$1 checkout=$2
options="NEURAL=${NEURAL:-no} CONSTRAINTS=${CONSTRAINTS-constraints.txt}"
command=${3:-"make demo DEMO=--no-open $options && make test $options"}
if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
  echo "make fresh needs root and debootstrap (apt install debootstrap); nothing was tried" >&2
  exit 2
fi
roots=${ROOTS:-$(mktemp -d)}
root=$roots/$suite
[ -e "$root/.made" ] || {
  debootstrap --variant=minbase --include=python3,python3-venv,make,git,ca-certificates "$suite" "$root" "${MIRROR:-http://deb.debian.org/debian}"
  chroot "$root" useradd --create-home somebody
  touch "$root/.made"
}
clean_up() {
  umount "$root/proc" "$root/sys" "$root/dev/shm" "$root/dev/pts" "$root${PIP_FIND_LINKS:-/none}" 2> /dev/null || true
  [ -n "${ROOTS:-}" ] || rm -rf --one-file-system "$roots"
}
trap clean_up EXIT
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
if [ -d "${PIP_FIND_LINKS:-/none}" ]; then  # a folder of wheels
  mkdir -p "$root$PIP_FIND_LINKS"
  mount --bind "$PIP_FIND_LINKS" "$root$PIP_FIND_LINKS"
fi
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
test -e "$root/etc/hosts" || echo 127.0.0.1 localhost > "$root/etc/hosts"  # which an installer writes
clone=/home/somebody/gainful-$$  # a new one each time
git clone --quiet "$checkout" "$root$clone"
chroot "$root" chown -R somebody "$clone"
cat "$root/etc/debian_version"
chroot "$root" su somebody -c "cd $clone && python3 --version && $command"
