#!/bin/sh
# deps.sh WHY PACKAGE... installs those of the Debian packages that are missing, and
# says which and why before it does. It works as root or through sudo, asks nothing, and
# does nothing if nothing is missing.
set -eu

why=$1
shift
missing=
for p in "$@"; do
	case $(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true) in
	installed) ;;
	*) missing="$missing $p" ;;
	esac
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "deps: $why. There is no apt-get here: install what these Debian packages hold:$missing" >&2
	exit 1
fi

# Debian starts a service when its package is installed.
case " $missing " in
*" opensm "*)
	if [ -e /sys/class/infiniband_mad/abi_version ]; then
		echo "deps: installing opensm would start a subnet manager on the fabric of this machine; install it yourself" >&2
		exit 1
	fi
	;;
esac

run=
[ "$(id -u)" -eq 0 ] || run=sudo
echo "deps: $why. These Debian packages are missing and are installed now:$missing"
$run apt-get -qq -o DPkg::Lock::Timeout=300 update
# shellcheck disable=SC2086 # both are lists of words
$run env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 --no-install-recommends install $missing
