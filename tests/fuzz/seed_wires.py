# SPDX-License-Identifier: Apache-2.0
"""Seeds of what peers send and write."""
import struct

from seed_corpus import write


def frame(kind, region=0, offset=0, payload=b"", imm=0, generation=1, size=None):
    return struct.pack("<HBBIIIQII", 0x5752, kind, 0, 0, region, generation, offset,
                       len(payload) if size is None else size, imm) + padded(payload)


def padded(payload):
    return payload + bytes(-len(payload) % 32)


def crc32c(data):
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def checked(kind, payload=b"", **fields):
    header = bytearray(frame(kind, payload=payload, **fields)[:32])
    header[4] = 1
    header += struct.pack("<I", crc32c(payload)) + bytes(24)
    return bytes(header) + struct.pack("<I", crc32c(header)) + padded(payload)


def part(number, payload=b"", more=0, **fields):
    header = bytearray(frame(3, payload=payload, **fields)[:32])
    header[4] = 2 * more
    return bytes(header) + struct.pack("<II", 0, number) + bytes(24) + padded(payload)


def checked_part(number, payload=b"", more=0, **fields):
    header = bytearray(frame(3, payload=payload, **fields)[:32])
    header[4] = 1 + 2 * more
    header += struct.pack("<II", crc32c(payload), number) + bytes(20)
    return bytes(header) + struct.pack("<I", crc32c(header)) + padded(payload)


def tcp_sockets():
    """The first half comes over one socket, the second over the other."""
    a, b = b"a" * 32, b"b" * 32
    message = frame(2, generation=0, payload=b"hello")
    write("tcp", "parts", b"\x03" + part(0, a, imm=1) + part(2, a, 1, offset=8)
          + part(1, b, imm=2) + part(3, b, imm=3))
    write("tcp", "parts-late", b"\x10" + part(2, a) + part(3, a) + part(0, b) + part(1, b))
    write("tcp", "parts-message", b"\x02" + message + part(1, region=1) + part(0) + part(2))
    write("tcp", "parts-twice", b"\x03" + part(1, a) + part(1, b))
    write("tcp", "parts-far", b"\x40" + part(1024, a) + part(0, b))
    write("tcp", "parts-missing", b"\x40" + part(3000, a) + part(1, b))
    write("tcp", "parts-checked", b"\x01" + checked_part(1, a) + checked_part(0, b, 1))
    write("tcp", "parts-message-second", b"\x01" + part(0) + message)


def tcp():
    message = frame(2, generation=0, payload=b"hello")
    put = frame(1, region=0, offset=8, payload=b"p" * 20, imm=7)
    large = frame(1, region=1, offset=100, payload=bytes(range(256)) * 70, imm=9)
    write("tcp", "message", b"\x01" + message)
    write("tcp", "put", b"\x03" + put)
    write("tcp", "empty-put", b"\x00" + frame(1, imm=5))
    write("tcp", "several", b"\x02" + (put + message) * 5)
    write("tcp", "large", b"\x80" + put + large + message)
    write("tcp", "outside", b"\x10" + frame(1, offset=60, payload=b"12345"))
    write("tcp", "wraps", b"\x10" + frame(1, offset=2**64 - 2, payload=b"12345"))
    write("tcp", "no-region", b"\x10" + frame(1, region=2, payload=b"1"))
    write("tcp", "old-region", b"\x10" + frame(1, generation=2, payload=b"1"))
    write("tcp", "cut", b"\x04" + put[:40])
    write("tcp", "long-message", b"\x00" + frame(2, generation=0, payload=b"x" * 256) +
          frame(2, generation=0, payload=b"x" * 257))
    good = checked(1, payload=b"c" * 30, offset=4, imm=3)
    write("tcp", "checked", b"\x05" + good + message + checked(2, generation=0, payload=b"hi"))
    write("tcp", "checked-large", b"\x80" + checked(1, region=1, payload=bytes(18000)) + good)
    write("tcp", "checked-wrong-payload", b"\x05" + good[:93] + b"C" + good[94:] + message)
    write("tcp", "checked-wrong-header", b"\x05" + good[:24] + b"\x1d" + good[25:])
    write("tcp", "checked-cut", b"\x02" + good + good[:60])
    write("tcp", "address-4", b"\x00" + bytes([4, 0, 0x39, 0x30, 127, 0, 0, 1]))
    write("tcp", "address-6", b"\x00" + bytes([6, 0, 0x39, 0x30]) + bytes(15) + b"\x01")


def handshake():
    first = b"WRNG" + struct.pack("<HHI", 1, 2, 5) + bytes(32) + b"hello".ljust(32, b"\0")
    second = b"WRNG" + struct.pack("<HH", 1, 0xA000) + bytes(64)
    write("handshake", "first", b"\x00\x0f" + first + bytes(32))
    write("handshake", "first-version", b"\x00\x0f" + first.replace(b"\x01\0\x02", b"\x02\0\x02"))
    write("handshake", "second", b"\x01\x0f" + second)
    write("handshake", "second-refusal", b"\x01\x0f" + second[:6] + b"\x01\xa0")
    write("handshake", "garbage", b"\x00\xffGET / HTTP/1.0\r\n\r\n")
    write("handshake", "untouched", b"\x02\x20")
    for place in (0, 4, 6, 8, 20, 50, 76, 82, 100, 130, 160, 180):
        write("handshake", f"changed-{place}", bytes([2, 31, place, 1]))


def control():
    for kind in range(7):
        write("control", f"kind-{kind}", struct.pack("<4I", kind, 3, 1, 6))
    for name, ranks in (("one", [5, 5]), ("some", [1, 2, 4, 4, 99, 99]), ("most", [0, 99] * 29),
                        ("backwards", [7, 6]), ("beyond", [99, 100]), ("half", [3])):
        write("control", f"left-{name}", struct.pack(f"<4I{len(ranks)}I", 22, 1, 0, 0, *ranks))
    write("control", "left-cut", struct.pack("<4I2I", 22, 0, 0, 0, 1, 1)[:-1])
    write("control", "left-nobody", struct.pack("<4I", 22, 1, 0, 0))
    write("control", "abort", struct.pack("<4I", 3, 12, 2, 0) + b"rank 2 is gone")
    write("control", "abort-long", struct.pack("<4I", 3, 12, 2, 0) + b"x" * 240)
    write("control", "abort-unprintable", struct.pack("<4I", 3, 12, 2, 0) + b"a\x1b[2J\nb")


def flight():
    waits = b"1 9e3779b97f4a7c14 11 208d|call 17 of all 4 ranks, allreduce of 1000 f32, sum (4000 bytes)"
    ended = b"2 9e3779b97f4a7c14 10 0|call 16 of all 4 ranks, barrier"
    step = b"1 9e3779b97f4a7c14 2a 0|step 8 of bucket 'layer3.weight' of all 4 ranks (4194304 bytes)"
    write("flight", "behind", b"\n".join([waits, ended, waits, waits]))
    write("flight", "lost", b"\n".join([step, b"4 0 0 0|", b"", b"0 0 0 0|", step]))
    write("flight", "aborted", b"\n".join([b"5 7 0 0|", waits.replace(b"1", b"3", 1)]))
    write("flight", "many", b"\n".join([waits] * 90 + [ended] * 10))
    write("flight", "long", b"1 %s %s ffffffff|%s" % (b"f" * 16, b"f" * 16, b"x" * 175))
    write("flight", "too-long", b"1 1 1 1|" + b"x" * 176)
    write("flight", "states", b"\n".join(b"%x 1 1 1|a" % state for state in range(16)))
    write("flight", "malformed", b"1 1 1|a\n|\n1 1 1 1\nx 1 1 1|a\n1 -1 -1 -1|a\n1 1 1 1 |a")


def shm():
    def publish(kind, size, region=0, offset=0):
        return struct.pack("<BBIHB", 2, region, offset, size, kind)

    take = b"\x06\x07"
    write("shm", "put", publish(1, 64) + take)
    write("shm", "message", publish(2, 256) + take)
    write("shm", "long-message", publish(2, 257) + take)
    write("shm", "full", publish(1, 8) * 256 + take * 40)
    write("shm", "too-many", publish(1, 8) * 257 + take)
    write("shm", "head", b"\x00" + struct.pack("<HI", 0, 0x80000000) + take)
    write("shm", "tail", b"\x03\xff" + bytes(255) + b"\x01" + struct.pack("<HI", 16, 999) + b"\x03\x05")
    write("shm", "push", (b"\x03\xf0" + bytes(240) + b"\x05\xf0") * 5)


def verbs():
    def card(qpn=0x1234, psn=0xABCDEF, mtu=3, rest=b""):
        data = struct.pack("<IIHB5x16sQI4x", qpn, psn, 7, mtu, bytes(range(16)), 2**47 - 8, 99)
        return b"\0" + data[:48 - len(rest)] + rest

    def offer(rails=1, qps=4, stripe=65536, link=2, mtu=1024, rest=b""):
        rail = struct.pack("<BBHI16s", link, 2, 0xFFFF, mtu, bytes(range(16)))
        return b"\1" + struct.pack("<BB6xQ", rails, qps, stripe) + rail + rest

    def resync(dead=3, renew=1):
        return b"\3" + struct.pack("<III16I", 1, dead, renew, *range(16))

    def resume(renewed=5, cards=2):
        return b"\4" + struct.pack("<IIQI", 1, 2, 3, renewed) + bytes(48 * cards)

    write("verbs", "card", card())
    write("verbs", "card-number", card(qpn=1 << 24))
    write("verbs", "card-packet", card(psn=1 << 24))
    write("verbs", "card-mtu-0", card(mtu=0))
    write("verbs", "card-mtu-6", card(mtu=6))
    write("verbs", "card-reserved", card(rest=b"\xff\xff\xff\xff"))
    write("verbs", "card-short", card()[:20])
    write("verbs", "offer", offer())
    write("verbs", "offer-none", offer(rails=0))
    write("verbs", "offer-more", offer(rails=2))
    write("verbs", "offer-long", offer(rest=b"x"))
    write("verbs", "offer-link", offer(link=0))
    write("verbs", "offer-mtu", offer(mtu=1500))
    write("verbs", "offer-queue-pairs", offer(qps=9))
    write("verbs", "offer-stripe", offer(stripe=2**63))
    write("verbs", "word", b"\2" + struct.pack("<HH", 2, 96))
    write("verbs", "word-none", b"\2" + struct.pack("<HH", 8, 0))
    write("verbs", "word-long", b"\2" + struct.pack("<HH", 2, 4096))
    def try_again(path=3, **kinds):
        return b"\5" + struct.pack("<II", 9, path) + card(**kinds)[1:]

    def address(port=4711, kinds=1, link=2, kind=0x82, rest=b""):
        return (b"\6" + struct.pack("<BBHI", 4, 0, port, 0x0100007F) + bytes([kinds]) +
                struct.pack("<BBH8s", link, kind, 0xFFFF, bytes([10, 0, 0, 1])) * 2 + rest)

    write("verbs", "address", address(kinds=2))
    write("verbs", "address-infiniband", address(kinds=2, link=1, kind=0))
    write("verbs", "address-none", address(kinds=0))
    write("verbs", "address-short", address(kinds=3))
    write("verbs", "address-long", address(kinds=2, rest=b"x"))
    write("verbs", "address-port", address(port=0, kinds=2))
    write("verbs", "address-link", address(kinds=2, link=3))
    write("verbs", "address-kind", address(kinds=2, kind=3))
    write("verbs", "try", try_again())
    write("verbs", "try-path", try_again(path=16))
    write("verbs", "try-card", try_again(mtu=0))
    write("verbs", "try-short", try_again()[:-1])
    write("verbs", "resync", resync())
    write("verbs", "resync-paths", resync(dead=1 << 16))
    write("verbs", "resync-short", resync()[:-1])
    write("verbs", "resume", resume())
    write("verbs", "resume-cards", resume(cards=1))
    write("verbs", "resume-paths", resume(renewed=1 << 31, cards=1))


def rendezvous():
    def word(kind, payload=b"", sequence=7, status=0, rank=0, size=None):
        return struct.pack("<5IQ", 0x565A5257, kind, sequence, status, rank,
                           len(payload) if size is None else size) + payload

    def gather(*streams, ends=0):
        return bytes([0, len(streams) - 1]) + b"".join(
            struct.pack("<BH", ends, len(s)) + s for s in streams)

    def hear(mode, data, ranks=2, ends=1):
        return bytes([mode, ranks - 2, ends]) + data

    def result(*blobs):
        return word(2, b"".join(struct.pack("<Q", len(b)) + b for b in blobs))

    blob = word(1, b"a blob")
    write("rendezvous", "gather-2", gather(blob))
    write("rendezvous", "gather-4", gather(blob, word(1), word(1, bytes(3000))))
    write("rendezvous", "gather-ended", gather(blob, blob, ends=1))
    write("rendezvous", "gather-silent", gather(blob, blob[:-1], b""))
    write("rendezvous", "gather-more", gather(blob + blob))
    write("rendezvous", "gather-other-exchange", gather(word(1, b"x", sequence=8)))
    write("rendezvous", "gather-other-kind", gather(word(2, b"x")))
    write("rendezvous", "gather-huge", gather(word(1, size=(64 << 20) + 1)))
    write("rendezvous", "gather-largest", gather(word(1, size=64 << 20)))
    for mode, name in (1, "contribute"), (2, "hear"):
        write("rendezvous", f"{name}-result", hear(mode, result(b"ab", b"", b"cde"), ranks=3))
        write("rendezvous", f"{name}-result-short", hear(mode, result(b"ab"), ranks=3))
        write("rendezvous", f"{name}-result-long", hear(mode, result(b"ab", b"cd", b"e"), ranks=2))
        write("rendezvous", f"{name}-result-wraps",
              hear(mode, word(2, struct.pack("<QQ", 2**64 - 8, 8))))
        write("rendezvous", f"{name}-failure",
              hear(mode, word(3, b"rank 2 is gone\n\x1b[2J", status=12, rank=2), ranks=4))
        write("rendezvous", f"{name}-failure-ok", hear(mode, word(3, b"fine", rank=2**31)))
        write("rendezvous", f"{name}-failure-long", hear(mode, word(3, b"x" * 512, status=12)))
        write("rendezvous", f"{name}-admitted", hear(mode, word(4)))
        write("rendezvous", f"{name}-silent", hear(mode, word(2)[:9], ends=0))
    write("rendezvous", "contribute-huge", hear(1, word(2, size=2 * ((64 << 20) + 8) + 1)))
    for name, taken, hello in (("good", 0, (1, 3)), ("taken", 1, (1, 3)), ("zero", 0, (0, 3)),
                               ("outside", 0, (3, 3)), ("other-size", 0, (1, 4))):
        write("rendezvous", f"claim-{name}", bytes([3, 1, taken]) + struct.pack("<II", *hello))
    write("rendezvous", "claim-short", bytes([3, 1, 0]) + bytes(7))


def root():
    def job(ranks, *deeds, waits=True):
        return bytes([(128 if waits else 0) + ranks - 2]) + b"".join(deeds)

    def rank(number, size, deed=0):
        return bytes([deed, number, size])

    def stranger(data):
        return bytes([2, len(data)]) + data

    silent, one_goes, one_resets = b"\3", b"\4\0", b"\4\1"
    magic = b"WRNG" + struct.pack("<HHI", 1, 1, 8)

    def tenths(n):
        return bytes([5, n - 1])

    write("root", "two", job(2, rank(1, 2)))
    write("root", "five", job(5, *(rank(r, 5) for r in (3, 1, 4, 2))))
    write("root", "five-at-once", job(5, *(rank(r, 5, 128) for r in (1, 2, 3)), rank(4, 5)))
    write("root", "late", job(4, rank(2, 4), tenths(100)))
    write("root", "late-of-many-kinds",
          job(4, rank(1, 4, 1), rank(2, 4, 1), stranger(b"GET / HTTP/1.0\r\n\r\n"), silent,
              stranger(magic[:6]), stranger(b"WRNG" + struct.pack("<HHI", 9, 1, 8) + bytes(64)),
              tenths(60), silent))
    write("root", "called-off", job(3, rank(1, 3), silent, waits=False))
    write("root", "other-size", job(3, rank(1, 4), rank(2, 3)))
    write("root", "outside", job(3, rank(7, 3), rank(1, 3)))
    write("root", "second-root", job(3, rank(0, 3)))
    write("root", "twice", job(3, rank(1, 3), rank(1, 3), rank(2, 3)))
    write("root", "late-ranks-hear-why", job(5, rank(9, 5), rank(1, 5), silent, rank(2, 5), tenths(40)))
    write("root", "leaves", job(3, rank(1, 3), one_goes))
    write("root", "leaves-unproven", job(3, silent, one_goes, silent, one_resets, rank(1, 3)))
    write("root", "slow", job(3, stranger(magic), tenths(60), rank(1, 3), rank(2, 3)))
    write("root", "crowd", job(3, b"\6\x22", tenths(6), rank(1, 3), silent, rank(2, 3)))
    write("root", "crowd-of-speakers",
          job(2, *([b"\x82\1W"] * 270), tenths(6), silent, rank(1, 2)))
    write("root", "complaints", job(2, *([stranger(b"x" * 80)] * 4), tenths(110), stranger(b"y" * 80)))
    write("root", "hello-short", job(3, b"\7\4" + bytes(4)))
    write("root", "hello-none", job(3, b"\7\0"))
    write("root", "hello-good", job(2, b"\7\x08" + struct.pack("<II", 1, 2)))
    for name, text in (("loopback", "127.0.0.1:5555"), ("v6", "[::1]:5555"), ("no-port", "127.0.0.1"),
                       ("port-0", "127.0.0.1:0"), ("port-large", "127.0.0.1:65537"),
                       ("several", "127.0.0.1:5556,[::1]:5556"),
                       ("two-ports", "127.0.0.1:5556,127.0.0.2:5557"), ("nothing", "")):
        write("root", f"listen-{name}", b"\xff\1" + text.encode())
        write("root", f"listen-{name}-without-key", b"\xff\0" + text.encode())


def tree():
    head = 28

    def over(stream, place, data):
        return struct.pack("<BHBB", stream, place, 0, len(data)) + data

    def insert(stream, place, data):
        return struct.pack("<BHBB", stream, place, 1, len(data)) + data

    def erase(stream, place, n):
        return struct.pack("<BHBB", stream, place, 2, n)

    def end(stream, place):
        return struct.pack("<BHB", stream, place, 3)

    def failure(text, rank=2, status=12):
        return struct.pack("<5IQ", 0x565A5257, 3, 7, status, rank, len(text)) + text

    for deed, name, streams, frame in ((0, "plant-root", (1, 16), 52), (1, "plant-rank", (0,), 52),
                                       (2, "exchange-root", (1, 4), 34),
                                       (3, "exchange-rank", (0, 5), 34)):
        write("tree", name, bytes([deed]))
        for s in streams:
            each, start = f"{name}-{s}", bytes([deed])
            write("tree", f"{each}-silent", start + erase(s, 0, 255) + erase(s, 0, 255))
            write("tree", f"{each}-gone", start + end(s, 0))
            write("tree", f"{each}-goes", start + end(s, 30))
            write("tree", f"{each}-gone-later", start + end(s, frame))
            write("tree", f"{each}-garbage", start + over(s, 0, b"garbage that is no frame at all"))
            write("tree", f"{each}-other-kind", start + over(s, 4, struct.pack("<I", 4)))
            write("tree", f"{each}-other-exchange", start + over(s, 8, struct.pack("<I", 8)))
            write("tree", f"{each}-other-rank", start + over(s, 16, struct.pack("<I", 12)))
            write("tree", f"{each}-outside", start + over(s, 16, struct.pack("<I", 999)))
            write("tree", f"{each}-huge", start + over(s, 20, struct.pack("<Q", 2**40)))
            write("tree", f"{each}-body", start + over(s, head, b"\xff" * 8))
            write("tree", f"{each}-failure", start + insert(s, 0, failure(b"rank 2 is gone\n")))
            write("tree", f"{each}-failure-of-none", start + insert(s, 0, failure(b"", rank=99)))
            write("tree", f"{each}-failure-later", start + insert(s, frame, failure(b"late")))
            write("tree", f"{each}-twice", start + insert(s, 0, failure(b"a") + failure(b"b")))
    for deed, name, streams in (4, "look-root", (1, 4)), (5, "look-rank", (0, 8)):
        write("tree", name, bytes([deed]))
        for s in streams:
            each, start = f"{name}-{s}", bytes([deed])
            write("tree", f"{each}-gone", start + end(s, 0))
            write("tree", f"{each}-failure", start + insert(s, 0, failure(b"rank 2 is gone")))
            write("tree", f"{each}-failure-cut", start + insert(s, 0, failure(b"rank 2")[:-3]))
            write("tree", f"{each}-garbage", start + insert(s, 0, bytes(range(40))))
            write("tree", f"{each}-more", start + insert(s, 0, struct.pack(
                "<5IQ", 0x565A5257, 1, 8, 0, s, 1) + b"x"))


def peer():
    def overwrite(message, place, data):
        return struct.pack("<BBHB", message, 0, place, len(data)) + data

    def insert(message, place, data):
        return struct.pack("<BBHB", message, 1, place, len(data)) + data

    def erase(message, place, n):
        return struct.pack("<BBHB", message, 2, place, n)

    def cut(message, place):
        return struct.pack("<BBHB", message, 3, place, 0)

    for deed, name in ((0, "commit"), (2, "open")):
        start = bytes([deed])
        write("peer", f"{name}-honest", start)
        for message in range(7):
            each = f"{name}-{message}"
            write("peer", f"{each}-nothing", start + cut(message, 0))
            write("peer", f"{each}-most", start + cut(message, 30))
            write("peer", f"{each}-more", start + insert(message, 4, b"more of it"))
            write("peer", f"{each}-less", start + erase(message, 8, 4))
            write("peer", f"{each}-huge", start + overwrite(message, 0, b"\xff\xff\xff\xff"))
            write("peer", f"{each}-name", start + overwrite(message, 8, b"\x1b[2J\n"))
            write("peer", f"{each}-zeros", start + overwrite(message, 16, bytes(60)))
            write("peer", f"{each}-ones", start + overwrite(message, 12, b"\xff" * 80))
    write("peer", "commit-trials-alone", bytes([0]) + overwrite(3, 0, struct.pack("<I", 1)))


def channel():
    def start(log2=2, slot=100, sequence=0):
        return struct.pack("<BHI", log2, slot, sequence)

    def arrive(ahead, size, member=0):
        return struct.pack("<BBH", member * 8, ahead, size)

    take, send, again = b"\x04", b"\x06", b"\x07"
    release = b"\x05\x00"
    write("channel", "one", start() + arrive(0, 100) + take + release)
    write("channel", "all", start() + b"".join(arrive(i, i) for i in range(4)) + take * 5 +
          b"\x05\x02" + release * 4 + again)
    write("channel", "twice", start() + arrive(1, 5) + arrive(1, 5))
    write("channel", "outside", start() + arrive(4, 5))
    write("channel", "long", start() + arrive(0, 101))
    write("channel", "wraps", start(3, 64, 2**32 - 3) +
          (arrive(0, 64) + take + release) * 9 + again)
    write("channel", "both", start(1, 9, 2**14 - 1) +
          (arrive(0, 9, 1) + arrive(0, 3) + b"\x0c" + take + release + b"\x0d\x00") * 4)
    write("channel", "any-piece", start() + b"\x01" + struct.pack("<II", 3, 0xFFFFFFFF))
    write("channel", "sends", start() + send * 6 + b"\x02\x00" + send * 3 + b"\x02\x02" + send)
    write("channel", "credits-unsent", start() + send + b"\x02\xff")
    write("channel", "any-credits", start() + send + b"\x03" + struct.pack("<I", 2**31))
    write("channel", "tagged", start(128 + 2) + (arrive(0, 9) + take + release) * 20 + again)
    write("channel", "next-call", start(128 + 3) + arrive(0, 9) + b"\x10" + arrive(1, 9)[1:] +
          take * 2 + release + again + take + release)
    write("channel", "empty-slots", start(0, 0) + (arrive(0, 0) + take + release) * 3)


def shm_stream():
    # files: 0 a region, 1 a ring, 2 and 3 the same unsealed, 4 short, 5 write-sealed, 6 may shrink,
    # 7 empty, 8 none, 9 a device, 10 a folder; numbers: places in the target's table
    def say(kind, file, number=1, offset=0, size=6):
        return bytes([0, kind, file, number, offset, size])

    def use(number=1, size=6, short=0):
        return bytes([2, number, size, short])

    ring, release, end = say(1, 1, 0, 0, 8), b"\4", b"\5"
    write("shm_stream", "region", ring + say(2, 0) + use() + release)
    write("shm_stream", "gone", ring + say(2, 0) + use() + say(3, 8) + use() + say(2, 0) + use())
    write("shm_stream", "ended", ring + say(2, 0) + use() + end + use())
    write("shm_stream", "inside", ring + say(2, 0, offset=4, size=4) + use(size=4) +
          say(2, 0, 2, offset=2, size=2) + use(2, 2))
    write("shm_stream", "wake", ring + say(4, 8) * 3 + say(2, 0) + use())
    write("shm_stream", "other-key", ring + say(2, 0) + use(size=5) + use(2) + use(short=1))
    for file in range(2, 11):
        write("shm_stream", f"file-{file}", ring + say(2, file) + use())
        write("shm_stream", f"ring-{file}", say(1, file, 0, 0, 8) + say(2, 0) + use())
    write("shm_stream", "outside", ring + say(2, 0, size=7) + use(size=7))
    write("shm_stream", "wraps", ring + say(2, 0, offset=11, size=4) + use(size=4))
    write("shm_stream", "same-id", ring + say(2, 0) + say(2, 0) + use())
    write("shm_stream", "second-ring", ring + ring)
    write("shm_stream", "before-the-ring", say(2, 0) + use())
    write("shm_stream", "a-file-too-many", ring + say(4, 0))
    write("shm_stream", "pieces", b"\3\x10" + bytes([4]) + bytes(15) + b"\3\x10" + bytes(16) + ring)


def ring():
    # first byte: 1 the rings are mapped, 2 puts copy, 4 memory may be registered
    def record(kind, small=0, number=1, group=1, tag=3, behind=()):
        return (b"\0" + struct.pack("<BHBBB", kind, small, number, group, tag) +
                bytes(behind).ljust(26, b"\0"))

    def message(step, place, size, member, tag=3):
        return bytes([step]) + struct.pack("<BHBB", place, size, member, tag)

    def receive(place=0, room=5000, member=1):
        return message(2, place, room, member)

    def send(place=1, size=100, member=1):
        return message(3, place, size, member)

    def put(grant, size):
        return bytes([4 + 6 * grant]) + struct.pack("<H", size)

    offer = record(3, 0, 5, behind=(200, 0, 0, 0, 1))
    grant = record(4, 0, 1, behind=(0, 0, 200, 0, 200, 0, 0, 0, 0, 8, 8, 0, 1))
    write("ring", "eager", b"\1" + receive() + record(2, 100))
    write("ring", "unexpected", b"\1" + record(2, 100) + receive())
    write("ring", "offer", b"\1" + receive() + offer + put(1, 200) + put(1, 50))
    write("ring", "registered", b"\5" + receive() + offer + put(1, 200))
    write("ring", "send", b"\1" + send() + b"\5" * 3)
    write("ring", "granted", b"\3" + send(1, 9000) + grant)
    write("ring", "done", b"\1" + send(1, 9000) + record(5))
    write("ring", "skip", b"\1" + record(1) + record(2, 50))
    write("ring", "many", b"\1" + record(2, 8000) * 12)
    write("ring", "own", b"\1" + send(2, 50, 0) + receive(3, 50, 0))


def pool():
    # say: 0 ask, 1 grant, 2 spare, 3 lend, 4 where memory is; then a (0: our channel), b, c
    def say(kind, a=(), b=0, c=0, body=b""):
        return bytes([0, kind, *a, b, c]) + body

    def put(channel, at, size):
        return bytes([2, channel, at, size])

    def send(size, again=0):
        return bytes([4, size, again])

    def lend(*slots):
        body = b"".join(bytes([4 * i, slot]) for i, slot in enumerate(slots))
        return say(3, [len(slots)], body=bytes([len(slots)]) + body + bytes([4 * len(slots)]))

    large, take, link, end = 211, b"\5", b"\x09", bytes([106])
    ask = say(0, [0], large)
    write("pool", "small", link + (put(0, 0, 100) + put(0, 1, 100) + take) * 4)
    write("pool", "asked", link + ask + put(255, 0, large) + take + put(0, 1, large) + take)
    write("pool", "spared", link + ask + say(2, [0], 0) + take)
    write("pool", "granted", link + send(large) + say(1, [0], 2) + send(large, 1))
    write("pool", "borrowed", link + lend(3, 1) + send(large) * 3)
    write("pool", "second-link", link + say(4) + b"\0\0")
    write("pool", "early", link + put(0, 0, 100) + put(0, 1, 100) + end + put(200, 2, 100))
    write("pool", "gone", link + ask + end + put(255, 0, large) + put(200, 0, 100) * 9)
    write("pool", "late-grant", link + send(large) + end + say(1, [200], 1))
    write("pool", "busy", link + bytes([107]) + ask + b"\7" + put(255, 0, large) + take)
    write("pool", "credits", link + send(100) * 3 + b"\x08\2" + send(100))
    write("pool", "not-granted", link + put(255, 0, large))


def pmi():
    """How the two protocols go, rank 0's part and another's, and where they may be broken off."""
    first = ["cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
             "cmd=my_kvsname kvsname=kvs_7\n"]
    get = [*first, "cmd=barrier_out\n", "cmd=get_result rc=0 value=10.0.0.1:4711,key\n"]
    put = [*first, "cmd=put_result rc=0\n", "cmd=barrier_out\n"]

    def framed(text):
        return f"{len(text):6}{text}"

    second = ["cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n",
              framed("cmd=fullinit-response;rank=1;size=2;rc=0;")]
    get2 = [*second, framed("cmd=kvs-fence-response;rc=0;"),
            framed("cmd=kvs-get-response;found=TRUE;value=10.0.0.1:4711;rc=0;")]
    put2 = [*second, framed("cmd=kvs-put-response;rc=0;"), framed("cmd=kvs-fence-response;rc=0;")]
    for name, how, words in [("one-get", 0, get), ("one-put", 2, put), ("two-get", 1, get2),
                             ("two-put", 3, put2)]:
        write("pmi", name, bytes([how]) + "".join(words).encode())
        write("pmi", name + "-cut", bytes([how]) + "".join(words).encode()[:-9])
    write("pmi", "refused", b"\0" + (first[0].replace("rc=0", "rc=1")).encode())
    write("pmi", "out-of-turn", b"\0" + "".join(reversed(get)).encode())
    write("pmi", "no-name", b"\0" + (first[0] + "cmd=my_kvsname\n").encode())
    write("pmi", "long-line", b"\0" + b"cmd=" + b"x" * 5000)
    write("pmi", "long-value", b"\0" + ("".join(get[:3]) + "cmd=get_result rc=0 value="
                                        + "v" * 1900 + "\n").encode())
    write("pmi", "no-length", b"\1" + (second[0] + "    -1cmd=fullinit-response;").encode())
    write("pmi", "long-frame", b"\1" + (second[0] + "  9999cmd=fullinit-response;").encode())


MAKERS = (pool, ring, shm_stream, channel, peer, rendezvous, root, tree, verbs, shm, tcp, tcp_sockets,
          handshake, control, flight, pmi)
