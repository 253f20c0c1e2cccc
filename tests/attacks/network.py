"""Sends data out, or asks another machine or process for help."""

from tests.attacks.attack import Attack

ATTACKS = {
    "connects": Attack("attempt(lambda: socket.create_connection(('127.0.0.1', @PORT@), timeout=2))\n"),
    "connects by IPv6": Attack("attempt(lambda: socket.create_connection(('::1', @PORT@), timeout=2))\n"),
    "sends a datagram": Attack(
        "attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', @UDP@)))\n"
    ),
    "listens": Attack("attempt(lambda: socket.create_server(('127.0.0.1', 0)))\n"),
    "a Unix socket in the file system": Attack(
        "def send():\n    sock = socket.socket(socket.AF_UNIX)\n    sock.connect('@UNIX@')\n"
        "    return sock.send(b'x')\nattempt(send)\n"
    ),
    "an abstract Unix socket": Attack(
        "def send():\n    sock = socket.socket(socket.AF_UNIX)\n    sock.connect('\\0@ABSTRACT@')\n"
        "    return sock.send(b'x')\nattempt(send)\n"
    ),
    "a datagram through a pair of sockets": Attack(
        "attempt(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', '@DATAGRAMS@'))\n"
    ),
    "resolves a host name": Attack("attempt(lambda: socket.gethostbyname('example.org'))\n"),
    "opens a netlink socket": Attack("attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))\n"),
    "starts a program": Attack("attempt(lambda: subprocess.run([sys.executable, '-c', '']).returncode == 0)\n"),
    "replaces itself with a program": Attack(
        "ran()\nwith contextlib.suppress(OSError): os.execv(sys.executable, ['python', '-c', ''])\n", ("FAIL", "ERROR")
    ),
    "writes to the judge's terminal": Attack("attempt(lambda: os.write(os.open('/dev/tty', os.O_WRONLY), b'PASS'))\n"),
    "injects terminal input": Attack("import fcntl\nattempt(lambda: fcntl.ioctl(0, 0x5412, b'x'))\n"),
}
