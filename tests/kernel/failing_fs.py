#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A file system on which writing fails, or is slow: one folder, files in memory, by the kernel's FUSE protocol.

    failing_fs.py FOLDER BYTES EIO|ENOSPC
    failing_fs.py FOLDER slow
    failing_fs.py FOLDER BYTES stuck

Mounts itself on FOLDER (do that in a mount namespace of its own), says `mounted`, and ends when it is unmounted. After
BYTES have been written to it, each write fails with that error; what was written before stands. Or nothing fails, and
each page of a write takes its time, so that who writes can be killed in the midst of it; or after BYTES there is no answer
at all, until a line comes on stdin.
"""
import ctypes
import errno
import os
import stat
import struct
import sys
import time

LOOKUP, FORGET, GETATTR, SETATTR, UNLINK, RENAME, OPEN, READ, WRITE, STATFS, RELEASE = 1, 2, 3, 4, 10, 12, 14, 15, 16, 17, 18
FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, CREATE, INTERRUPT, DESTROY, FORGETS, RENAME2 = (
    20, 25, 26, 27, 28, 29, 35, 36, 38, 42, 45)
MAX_WRITE = 1 << 16
SLOW_WRITE, SLOW_SECONDS = 1 << 12, 0.004
FATTR_SIZE = 8


class Failure(Exception):
    pass


class FileSystem:
    def __init__(self, room, error):
        """Room None: of a slow one. Error None: of one that is stuck."""
        self.room, self.error = room, error
        self.max_write = SLOW_WRITE if room is None else MAX_WRITE
        self.nodes = {}  # node id -> bytearray; the folder is 1
        self.names = {}

    def attributes(self, node):
        folder = node == 1
        size = 0 if folder else len(self.nodes[node])
        mode = stat.S_IFDIR | 0o777 if folder else stat.S_IFREG | 0o666
        return struct.pack("<6Q10I", node, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def entry(self, node):
        return struct.pack("<4Q2I", node, 0, 0, 0, 0, 0) + self.attributes(node)

    def answer(self, opcode, node, body):
        """The bytes of the reply."""
        if opcode == INIT:
            return struct.pack("<4I2H2I2H8I", 7, 31, 65536, 0, 16, 12, self.max_write, 1, self.max_write // 4096, 0, *[0] * 8)
        if node != 1 and node not in self.nodes:
            raise Failure(errno.ENOENT)
        if opcode == LOOKUP:
            name = body.rstrip(b"\0")
            if name not in self.names:
                raise Failure(errno.ENOENT)
            return self.entry(self.names[name])
        if opcode in (GETATTR, SETATTR):
            if opcode == SETATTR and struct.unpack_from("<I", body)[0] & FATTR_SIZE:
                self.truncate(self.nodes[node], struct.unpack_from("<Q", body, 16)[0])
            return struct.pack("<Q2I", 0, 0, 0) + self.attributes(node)
        if opcode == CREATE:
            new = self.names[body[16:].rstrip(b"\0")] = len(self.nodes) + 2
            self.nodes[new] = bytearray()
            return self.entry(new) + struct.pack("<Q2I", 0, 0, 0)
        if opcode in (OPEN, OPENDIR):
            return struct.pack("<Q2I", 0, 0, 0)
        if opcode == READ:
            _, offset, size = struct.unpack_from("<2QI", body)
            return bytes(self.nodes[node][offset:offset + size])
        if opcode == WRITE:
            return self.write(self.nodes[node], body)
        if opcode == STATFS:
            return struct.pack("<5Q4I6I", 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096, 0, *[0] * 6)
        if opcode == UNLINK:
            del self.names[body.rstrip(b"\0")]
            return b""
        if opcode in (RENAME, RENAME2):
            old, new = body[16 if opcode == RENAME2 else 8:].split(b"\0")[:2]
            self.names[new] = self.names.pop(old)
            return b""
        if opcode in (RELEASE, RELEASEDIR, FSYNC, FLUSH, READDIR):
            return b""
        raise Failure(errno.ENOSYS)

    @staticmethod
    def truncate(data, size):
        del data[size:]
        data.extend(bytes(size - len(data)))

    def write(self, data, body):
        _, offset, size = struct.unpack_from("<2QI", body)
        if self.room is None:
            time.sleep(SLOW_SECONDS)
        elif size > self.room and self.error is None:
            sys.stdin.readline()
            self.room = 1 << 62
        elif size > self.room:
            self.room = 0
            raise Failure(self.error)
        else:
            self.room -= size
        if len(data) < offset:
            self.truncate(data, offset)
        data[offset:offset + size] = body[40:40 + size]
        return struct.pack("<2I", size, 0)


def serve(device, files):
    while True:
        try:
            request = os.read(device, MAX_WRITE + 4096)
        except OSError as error:
            if error.errno in (errno.ENODEV, errno.EBADF):
                return
            if error.errno in (errno.ENOENT, errno.EINTR):
                continue
            raise
        _, opcode, unique, node = struct.unpack_from("<2I2Q", request)
        if opcode in (FORGET, FORGETS, INTERRUPT, DESTROY):
            continue
        try:
            reply, error = files.answer(opcode, node, request[40:]), 0
        except Failure as failure:
            reply, error = b"", -failure.args[0]
        try:
            os.write(device, struct.pack("<IiQ", 16 + len(reply), error, unique) + reply)
        except FileNotFoundError:  # the request was interrupted meanwhile
            pass


def main():
    folder, slow = sys.argv[1], sys.argv[2] == "slow"
    files = FileSystem(None, 0) if slow else FileSystem(int(sys.argv[2]), getattr(errno, sys.argv[3], None))
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"failing", folder.encode(), b"fuse", 2 | 4, options):
        print(f"cannot mount: {os.strerror(ctypes.get_errno())}")
        return 1
    # Whoever waits for this line may use it at once: the kernel waits for INIT itself.
    print("mounted", flush=True)
    serve(device, files)
    return 0


sys.exit(main())
