"""Notes whom every Python process of a sweep speaks to; Python imports this by its name."""

import os
import sys

_FILE = os.environ.get("AUDIT_FILE")


def _note(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        line = f"connect {arguments[1][0]}"
    elif event == "socket.getaddrinfo":
        name = arguments[0]
        line = f"lookup {name.decode() if isinstance(name, bytes) else name}"
    else:
        return
    handle = os.open(_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, f"{line} {os.path.basename(sys.argv[0]) if sys.argv else ''}\n".encode())
    os.close(handle)


if _FILE:
    sys.addaudithook(_note)
