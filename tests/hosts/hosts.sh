# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Hosts h1, h2, ... on one machine: each has a network, a hostname, shared memory and a node-local folder of its own,
# and an eth0 of 1 Gbit/s to a switch, which is a bridge.  They share all other folders and the user.  Sourced in the
# namespaces that tests/hosts/run makes; when those end, so does all that is here.
#
#     hosts_missing          what this machine lacks for them, or nothing
#     hosts_up FOLDER N      bring up N hosts; from now on $hosts is FOLDER, and $hosts/local is each host's own
#     on HOST COMMAND...     run it there
#     plug HOST up|down      its cable; nobody is told
#     $hosts/ssh             a stand-in for ssh

PATH=$PATH:/usr/sbin:/sbin

hosts_missing() {
    for program in ip tc unshare nsenter hostname; do
        command -v $program > /dev/null || {
            echo "no $program (Debian: iproute2 util-linux hostname)"
            return
        }
    done
    why=$(unshare --net --uts --mount --ipc sh -c \
        'hostname h && mount -t tmpfs none /mnt && ip link add v1 type veth peer name v2 && ip link add b1 type bridge' 2>&1) ||
        echo "no namespaces here with a network of their own: $(echo "$why" | head -n 1)"
}

# shape INTERFACE COMMAND...: one direction of a link; COMMAND begins a command line in its network.  Not every kernel
# has delays.
shape() {
    interface=$1
    shift
    "$@" tc qdisc add dev "$interface" root netem rate 1gbit delay 1ms limit 10000 2> "$hosts/netem" ||
        "$@" tc qdisc add dev "$interface" root tbf rate 1gbit burst 256k latency 50ms
}

# start_host N
start_host() {
    # shellcheck disable=SC2016  # its own variables
    unshare --net --uts --mount --ipc sh -c '
        hostname "$2" && mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs "$1/local" &&
            mount --bind "$1/names" /etc/hosts && ip link set lo up && : > "$1/$2.up" && exec sleep infinity' \
        first "$hosts" "h$1" < /dev/null &
    echo $! > "$hosts/h$1.pid"
    for _ in $(seq 100); do
        [ ! -e "$hosts/h$1.up" ] || break
        sleep 0.05
    done
    ip link add "to-h$1" type veth peer name eth0 netns "$(cat "$hosts/h$1.pid")" &&
        ip link set "to-h$1" master switch up && on "h$1" ip address add "10.55.0.$1/24" dev eth0 &&
        on "h$1" ip link set eth0 up && shape "to-h$1" && shape eth0 on "h$1"
}

# As ssh does, join the words for a shell, in the home folder, with no variables.
write_ssh() {
    cat > "$hosts/ssh" << END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\${1%%.*}
shift
[ -e "$hosts/\$host.pid" ] && [ ! -e "$hosts/\$host.unplugged" ] || {
    echo "ssh: connect to host \$host port 22: No route to host" >&2
    exit 255
}
exec nsenter --target "\$(cat "$hosts/\$host.pid")" --net --uts --mount --ipc \\
    env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin HOME=/ sh -c "cd; \$*"
END
    chmod +x "$hosts/ssh"
}

hosts_up() {
    hosts=$1
    mkdir -p "$hosts/local" || return
    { echo 127.0.0.1 localhost
      for n in $(seq "$2"); do echo "10.55.0.$n h$n.cluster h$n"; done; } > "$hosts/names"
    write_ssh && ip link set lo up && ip link add switch type bridge && ip link set switch up || return
    for n in $(seq "$2"); do
        start_host "$n" || return
    done
}

on() {
    host=$1
    shift
    nsenter --target "$(cat "$hosts/$host.pid")" --net --uts --mount --ipc --wd="$PWD" "$@"
}

plug() {
    ip link set "to-$1" "$2"
    case $2 in
    up)
        rm -f "$hosts/$1.unplugged"
        for n in $(seq 9); do # whom they found silent meanwhile
            [ ! -e "$hosts/h$n.pid" ] || on "h$n" ip neighbour flush dev eth0
        done
        ;;
    down) : > "$hosts/$1.unplugged" ;;
    esac
}
