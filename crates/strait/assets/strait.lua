-- Wireshark dissector for the link frames of strait: docs/wire-format/segments.md, headers.md.
--
-- LINKTYPE_USER0 (147): one segment without octet stuffing and flags, as `--pcap` writes it.
-- LINKTYPE_USER1 (148): octets of a serial line as they are, with stuffing and flags.
-- LINKTYPE_USER2 (149): the same with urgent frames, as `--pcap` writes it for the profile `adapter`.
-- UDP: choose `strait` by "Decode As", or tshark -d udp.port==PORT,strait

local segments = Proto("strait", "strait link segment")
local line = Proto("strait_line", "strait octet stream")
local urgent_line = Proto("strait_urgent", "strait octet stream with urgent frames")

-- Settings ------------------------------------------------------------------------------------

local CHECKS = { { 1, "by trial", 0 }, { 2, "32 bits", 32 }, { 3, "16 bits", 16 } }
local CARRIES = { { 1, "by trial", 0 }, { 2, "IP packets", 1 }, { 3, "ROHC packets", 2 } }
segments.prefs.check = Pref.enum("Check of whole packets", 0,
    "Bits of the check of a segment that holds a packet whole: the port's key `check`", CHECKS, false)
segments.prefs.carries = Pref.enum("Packets are", 0,
    "What segments carry: ROHC packets with the port's compression = \"rohc\"", CARRIES, false)
urgent_line.prefs.check = Pref.enum("Check of urgent frames", 16,
    "Bits of their check: the port's key `check_urgent`",
    { { 1, "16 bits", 16 }, { 2, "32 bits", 32 } }, false)
segments.prefs.mtu = Pref.uint("Longest packet", 65567,
    "In octets; a longer one is given up")

-- Fields --------------------------------------------------------------------------------------

local f = {
    header = ProtoField.uint8("strait.header", "Header", base.HEX),
    first = ProtoField.bool("strait.first", "FIRST, the packet begins here", 8, nil, 0x80),
    last = ProtoField.bool("strait.last", "LAST, the packet ends here", 8, nil, 0x40),
    stream = ProtoField.uint8("strait.stream", "Stream", base.DEC, nil, 0x38),
    sequence = ProtoField.uint8("strait.sequence", "Sequence", base.DEC, nil, 0x07),
    number = ProtoField.uint8("strait.number", "Number"),
    again = ProtoField.bool("strait.again", "Came before"),
    sum = ProtoField.uint32("strait.sum", "Check over the packet", base.HEX),
    sum_ok = ProtoField.bool("strait.sum_ok", "Check over the packet is right"),
    payload = ProtoField.bytes("strait.payload", "Payload"),
    check = ProtoField.uint32("strait.check", "Check", base.HEX),
    check_bits = ProtoField.uint8("strait.check_bits", "Bits of the check"),
    check_ok = ProtoField.bool("strait.check_ok", "Check is right"),
    octets = ProtoField.uint32("strait.packet.octets", "Octets of the packet"),
    packet = ProtoField.bytes("strait.packet", "Packet"),
    began = ProtoField.framenum("strait.packet.began", "Packet begins in frame"),
    pieces = ProtoField.uint32("strait.packet.segments", "Segments of the packet"),
    kind = ProtoField.string("strait.packet.kind", "Packet is"),
    inflated = ProtoField.bytes("strait.inflated", "Decompressed"),
}
local h = {
    newest = ProtoField.uint8("strait.hello.newest", "Newest format"),
    oldest = ProtoField.uint8("strait.hello.oldest", "Oldest format"),
    flags = ProtoField.uint8("strait.hello.flags", "Flags", base.HEX),
    compresses = ProtoField.bool("strait.hello.compresses", "Compresses headers", 8, nil, 0x01),
    was_heard = ProtoField.bool("strait.hello.was_heard", "Knows that it was heard", 8, nil, 0x02),
    counts = ProtoField.bool("strait.hello.counts", "Counts packets of contexts", 8, nil, 0x04),
    rebuilds = ProtoField.bool("strait.hello.rebuilds", "Leaves out UDP checksums", 8, nil, 0x40),
    far = ProtoField.bool("strait.hello.far", "Finds far timestamps", 8, nil, 0x80),
    contexts = ProtoField.uint8("strait.hello.contexts", "Highest context"),
    incarnation = ProtoField.uint32("strait.hello.incarnation", "Incarnation", base.HEX),
    heard = ProtoField.uint32("strait.hello.heard", "Incarnation heard", base.HEX),
    mtu = ProtoField.uint16("strait.hello.mtu", "Longest packet"),
    checks = ProtoField.uint8("strait.hello.checks", "Checks", base.HEX),
    short_real_time = ProtoField.bool("strait.hello.short_real_time",
        "16 bits for real-time packets", 8, nil, 0x01),
    short_others = ProtoField.bool("strait.hello.short_others", "16 bits for others", 8, nil, 0x02),
    urgent = ProtoField.bool("strait.hello.urgent", "Has urgent frames", 8, nil, 0x04),
    repairs = ProtoField.bool("strait.hello.repairs", "Retransmits losses", 8, nil, 0x08),
    streams = ProtoField.uint8("strait.hello.streams", "Streams of real-time packets", base.HEX),
    sent = ProtoField.uint32("strait.hello.known_sent", "Known flows sent", base.HEX),
    received = ProtoField.uint32("strait.hello.known_received", "Known flows received", base.HEX),
    dictionary = ProtoField.uint32("strait.hello.dictionary", "Digest of the dictionary", base.HEX),
    again_sent = ProtoField.uint32("strait.hello.remembered_sent", "Remembered flow sent", base.HEX),
    again_received = ProtoField.uint32("strait.hello.remembered_received",
        "Remembered flow received", base.HEX),
    field = ProtoField.bytes("strait.hello.field", "Another field"),
}
local n = {
    wish = ProtoField.bool("strait.note.wish", "Wants segments with numbers", 8, nil, 0x01),
    asks = ProtoField.uint8("strait.note.asks", "Asks question", base.DEC, nil, 0x30),
    answers = ProtoField.uint8("strait.note.answers", "Answers question", base.DEC, nil, 0xc0),
    from = ProtoField.uint8("strait.note.from", "Oldest number that may still come"),
    next = ProtoField.uint8("strait.note.next", "Next number"),
    base = ProtoField.uint8("strait.note.base", "First number missing"),
    last = ProtoField.uint8("strait.note.last", "Last number received"),
    came = ProtoField.uint8("strait.note.came", "Came beyond it"),
}
local e = {
    short = ProtoExpert.new("strait.short", "Shorter than header and check",
        expert.group.MALFORMED, expert.severity.ERROR),
    check = ProtoExpert.new("strait.check_wrong", "Check is wrong",
        expert.group.CHECKSUM, expert.severity.ERROR),
    order = ProtoExpert.new("strait.order", "Doesn't follow the segment before",
        expert.group.SEQUENCE, expert.severity.WARN),
    unfinished = ProtoExpert.new("strait.unfinished", "The packet before on this stream is unfinished",
        expert.group.SEQUENCE, expert.severity.WARN),
    long = ProtoExpert.new("strait.long", "Packet grows beyond the longest",
        expert.group.PROTOCOL, expert.severity.WARN),
    hello = ProtoExpert.new("strait.hello.short", "Hello ends within a field",
        expert.group.MALFORMED, expert.severity.ERROR),
    payload = ProtoExpert.new("strait.payload_unreadable", "Compressed payload can't be read",
        expert.group.MALFORMED, expert.severity.ERROR),
}
segments.fields = { f.header, f.first, f.last, f.stream, f.sequence, f.number, f.again, f.sum, f.sum_ok, f.payload,
    n.wish, n.asks, n.answers, n.from, n.next, n.base, n.last, n.came, h.repairs, f.check, f.check_bits,
    f.check_ok, f.octets, f.packet, f.began, f.pieces, f.kind, f.inflated, h.newest, h.oldest, h.flags,
    h.compresses, h.was_heard, h.counts, h.rebuilds, h.far, h.contexts, h.incarnation, h.heard, h.mtu, h.checks,
    h.short_real_time, h.short_others, h.urgent, h.streams, h.sent, h.received, h.dictionary,
    h.again_sent, h.again_received, h.field }
segments.experts = { e.short, e.check, e.order, e.unfinished, e.long, e.hello, e.payload }

local lf = {
    flags = ProtoField.uint32("strait_line.flags", "Flags"),
    escapes = ProtoField.uint32("strait_line.escapes", "Escapes"),
    frame = ProtoField.bytes("strait_line.frame", "Frame"),
}
local uf = {
    frame = ProtoField.bytes("strait_urgent.frame", "Urgent frame"),
    inside = ProtoField.bool("strait_urgent.inside", "Inside another frame"),
    masked = ProtoField.bool("strait_urgent.masked", "Masked"),
    length = ProtoField.uint16("strait_urgent.length", "Length"),
    check_ok = ProtoField.bool("strait_urgent.check_ok", "Check is right"),
}
local le = {
    escape = ProtoExpert.new("strait_line.escape_wrong", "Invalid escape",
        expert.group.MALFORMED, expert.severity.ERROR),
    given_up = ProtoExpert.new("strait_line.given_up", "Given up before its end",
        expert.group.SEQUENCE, expert.severity.WARN),
}
line.fields = { lf.flags, lf.escapes, lf.frame }
line.experts = { le.escape, le.given_up }
local urgent_wrong = ProtoExpert.new("strait_urgent.wrong", "Check of an urgent frame is wrong",
    expert.group.CHECKSUM, expert.severity.ERROR)
urgent_line.fields = { uf.frame, uf.inside, uf.masked, uf.length, uf.check_ok }
urgent_line.experts = { urgent_wrong }

local interface_id = Field.new("frame.interface_id")

-- Checks --------------------------------------------------------------------------------------

-- Lua 5.2 has bit32; later ones have operators, which 5.2 can't even read.
local bxor, band, rshift
if bit32 then
    bxor, band, rshift = bit32.bxor, bit32.band, bit32.rshift
else
    bxor = load("return function(a, b) return a ~ b end")()
    band = load("return function(a, b) return a & b end")()
    rshift = load("return function(a, n) return a >> n end")()
end

-- The table of a reflected CRC.
local function crc_table(polynomial)
    local entries = {}
    for octet = 0, 255 do
        local sum = octet
        for _ = 1, 8 do
            local carry = band(sum, 1)
            sum = rshift(sum, 1)
            if carry == 1 then sum = bxor(sum, polynomial) end
        end
        entries[octet] = sum
    end
    return entries
end

-- CRC-16/IBM-SDLC and CRC-32/ISO-HDLC by their catalogue parameters.
local CRC16 = { entries = crc_table(0x8408), ones = 0xffff }
local CRC32 = { entries = crc_table(0xedb88320), ones = 0xffffffff }

-- The check over the octets of several byte arrays, one behind the other.
local function crc(kind, ...)
    local sum = kind.ones
    for _, bytes in ipairs({ ... }) do
        for at = 0, bytes:len() - 1 do
            sum = bxor(rshift(sum, 8), kind.entries[band(bxor(sum, bytes:get_index(at)), 0xff)])
        end
    end
    return bxor(sum, kind.ones)
end

-- The check of a frame, sent least significant octet first.
local function sent_check(bytes, octets)
    local value = 0
    for at = bytes:len() - 1, bytes:len() - octets, -1 do
        value = value * 256 + bytes:get_index(at)
    end
    return value
end

-- Packets under way ---------------------------------------------------------------------------

-- By capture interface and stream, what has come of a packet; by capture interface, segments with
-- numbers; and by frame number and place in it, what was found out when it was seen for the first
-- time.
local under_way, rows, found = {}, {}, {}

function segments.init()
    under_way, rows, found = {}, {}, {}
end

-- The piece of a stream that stands before a number, or behind it, where none of between is known to
-- be missing: pieces of a stream have sequences that follow each other.
local function neighbour(row, number, piece, step)
    for distance = 1, 120 do
        local other = row[(number + step * distance) % 256]
        if other and other.stream == piece.stream then
            local follows = other.sequence == (piece.sequence + step) % 8
            return follows and (number + step * distance) % 256 or nil
        end
    end
end

-- The packet that a segment with a number completes, if it does.
local function completed(row, number)
    local from, to = number, number
    while from and not row[from].first do from = neighbour(row, from, row[from], -1) end
    while to and not row[to].last do to = neighbour(row, to, row[to], 1) end
    if not from or not to then return end
    local packet, pieces, at = ByteArray.new(), 0, from
    local last = row[to]
    local began = row[from].frame
    while true do
        packet:append(row[at].payload)
        pieces = pieces + 1
        row[at].done = true
        if at == to then break end
        at = neighbour(row, at, row[at], 1)
        if not at then return end
    end
    return packet, began, pieces, last.sum and last.sum == crc(CRC32, packet, last.header)
end

-- Reads a segment with a number; its check is sent inverted. Nil, if it is none.
local function read_numbered(bytes, key, number)
    local function own(octets, kind)
        if bytes:len() < 2 + octets then return false end
        local sent = sent_check(bytes, octets)
        return sent == bxor(crc(kind, bytes:subset(0, bytes:len() - octets)), kind.ones), sent
    end
    local header = bytes:get_index(0)
    local first, last = header >= 0x80, band(header, 0x40) ~= 0
    local octets, ok, value = 2, own(2, CRC16)
    if first and last and not ok then octets, ok, value = 4, own(4, CRC32) end
    if not ok then return nil end
    local it = {
        first = first, last = last, stream = band(rshift(header, 3), 7), sequence = band(header, 7),
        number = bytes:get_index(1), check_octets = octets, check_value = value, check_ok = true,
        sum_octets = (last and not first) and 4 or 0,
    }
    it.payload_octets = bytes:len() - 2 - octets - it.sum_octets
    if it.payload_octets < 0 then return nil end
    local row = rows[key] or {}
    rows[key] = row
    local piece = row[it.number]
    it.again = piece ~= nil and piece.bytes == bytes:tohex()
    if it.again and piece.done then return it end
    row[it.number] = {
        first = first, last = last, stream = it.stream, sequence = it.sequence, frame = number,
        bytes = bytes:tohex(), header = bytes:subset(0, 1),
        payload = it.payload_octets > 0 and bytes:subset(2, it.payload_octets) or ByteArray.new(),
        sum = it.sum_octets > 0 and sent_check(bytes:subset(0, bytes:len() - octets), 4) or nil,
    }
    -- What is half a row of numbers away is another round.
    row[(it.number + 128) % 256] = nil
    local sum_ok
    it.packet, it.began, it.pieces, sum_ok = completed(row, it.number)
    if it.sum_octets > 0 then it.sum_value = row[it.number].sum end
    if it.packet and it.pieces > 1 then it.sum_ok = sum_ok end
    return it
end

-- Reads one segment: header, check, and the packet if it ends here.
local function read(bytes, key, number)
    local numbered = read_numbered(bytes, key, number)
    if numbered then return numbered end
    local header = bytes:get_index(0)
    local it = {
        first = header >= 0x80,
        last = band(header, 0x40) ~= 0,
        stream = band(rshift(header, 3), 7),
        sequence = band(header, 7),
    }
    local way_key = key .. "/" .. it.stream
    local way = under_way[way_key]
    local expected = way and (way.sequence + 1) % 8
    it.unfinished = way ~= nil and it.first
    it.out_of_order = not it.first and (way == nil or it.sequence ~= expected)

    -- How many bits, and whether the check is right.
    local function judge(octets, kind, ...)
        it.check_octets, it.check_value = octets, sent_check(bytes, octets)
        it.check_ok = it.check_value == crc(kind, ...)
        return it.check_ok
    end
    local function over_segment(octets)
        return bytes:subset(0, bytes:len() - octets)
    end
    local wish = segments.prefs.check
    if not it.last then
        judge(2, CRC16, over_segment(2))
    elseif not it.first then
        if bytes:len() < 5 then it.short = true; return it end
        local piece = bytes:subset(1, bytes:len() - 5)
        local parts = way and not it.out_of_order and way.parts or {}
        local all = ByteArray.new()
        for _, part in ipairs(parts) do all:append(part) end
        all:append(piece)
        judge(4, CRC32, all, bytes:subset(0, 1))
    elseif wish == 16 then
        judge(2, CRC16, over_segment(2))
    elseif bytes:len() < 5 then
        if wish == 32 then it.short = true; return it end
        judge(2, CRC16, over_segment(2))
    elseif not judge(4, CRC32, over_segment(4)) and wish == 0 then
        if not judge(2, CRC16, over_segment(2)) then judge(4, CRC32, over_segment(4)) end
    end
    it.payload_octets = bytes:len() - 1 - it.check_octets
    local payload = it.payload_octets > 0 and bytes:subset(1, it.payload_octets) or ByteArray.new()

    -- A segment whose check is wrong counts as lost, so the next one doesn't follow; the end of a
    -- packet that doesn't fit it takes the packet along.
    if not it.check_ok then
        if it.last and not it.first then under_way[way_key] = nil end
        return it
    end
    if it.out_of_order then
        under_way[way_key] = nil
        return it
    end
    if it.first then
        way = { parts = {}, octets = 0, began = number }
        under_way[way_key] = way
    end
    way.sequence = it.sequence
    way.octets = way.octets + payload:len()
    way.parts[#way.parts + 1] = payload
    if way.octets > segments.prefs.mtu then
        it.too_long = true
        under_way[way_key] = nil
        return it
    end
    if it.last then
        local packet = ByteArray.new()
        for _, part in ipairs(way.parts) do packet:append(part) end
        it.packet, it.began, it.pieces = packet, way.began, #way.parts
        under_way[way_key] = nil
    end
    return it
end

-- Compressed payloads -------------------------------------------------------------------------

-- What `strait dissector` puts here: the dictionary of this version.
local DICTIONARY = ""

-- Base value and extra bits of each code (RFC 1951 section 3.2.5).
local function codes(first, extras)
    local all, value = {}, first
    for at, extra in ipairs(extras) do
        all[at] = { value, extra }
        value = value + 2 ^ extra
    end
    return all
end
local LENGTHS = codes(3, { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5 })
LENGTHS[29] = { 258, 0 }
local DISTANCES = codes(1, { 0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10,
    11, 11, 12, 12, 13, 13 })
local ORDER = { 16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15 }

-- Symbols by length and value of their code (section 3.2.2), from the length of each symbol's code.
local function huffman(lengths, first, last)
    local symbols, code = {}, 0
    for length = 1, 15 do
        code = code * 2
        for symbol = first, last do
            if lengths[symbol] == length then
                symbols[length * 65536 + code] = symbol - first
                code = code + 1
            end
        end
    end
    return symbols
end

-- Octets as a table of numbers behind the dictionary; nil for what isn't a whole stream.
local function inflate(bytes, from)
    local out, at, bit = {}, from, 0
    for place = 1, #DICTIONARY do out[place] = DICTIONARY:byte(place) end
    local limit = #out + segments.prefs.mtu + 64
    local function bits(count)
        local value = 0
        for place = 0, count - 1 do
            if at >= bytes:len() then error("short") end
            value = value + band(rshift(bytes:get_index(at), bit), 1) * 2 ^ place
            bit = bit + 1
            if bit == 8 then at, bit = at + 1, 0 end
        end
        return value
    end
    local function symbol(symbols)
        local code = 0
        for length = 1, 15 do
            code = code * 2 + bits(1)
            local found_one = symbols[length * 65536 + code]
            if found_one then return found_one end
        end
        error("code")
    end
    local function fixed()
        local lengths = {}
        for it = 0, 287 do
            lengths[it] = it < 144 and 8 or it < 256 and 9 or it < 280 and 7 or 8
        end
        for it = 288, 317 do lengths[it] = 5 end
        return huffman(lengths, 0, 287), huffman(lengths, 288, 317)
    end
    local function dynamic()
        local literals, distances, count = bits(5) + 257, bits(5) + 1, bits(4) + 4
        local own, lengths, it = {}, {}, 0
        for place = 1, count do own[ORDER[place]] = bits(3) end
        local symbols = huffman(own, 0, 18)
        while it < literals + distances do
            local what = symbol(symbols)
            local value, times = what, 1
            if what == 16 then
                value, times = lengths[it - 1] or error("repeat"), bits(2) + 3
            elseif what == 17 then
                value, times = 0, bits(3) + 3
            elseif what == 18 then
                value, times = 0, bits(7) + 11
            end
            for _ = 1, times do
                lengths[it] = value
                it = it + 1
            end
        end
        return huffman(lengths, 0, literals - 1), huffman(lengths, literals, literals + distances - 1)
    end
    local function copy(what, symbols)
        local length = LENGTHS[what - 256] or error("length")
        local octets = length[1] + bits(length[2])
        local distance = DISTANCES[symbol(symbols) + 1] or error("distance")
        local back = distance[1] + bits(distance[2])
        if back > #out or #out + octets > limit then error("back") end
        for _ = 1, octets do out[#out + 1] = out[#out + 1 - back] end
    end
    local function stored()
        if bit > 0 then at, bit = at + 1, 0 end
        local octets = bits(16)
        if octets + bits(16) ~= 65535 or #out + octets > limit then error("stored") end
        for _ = 1, octets do out[#out + 1] = bits(8) end
    end
    local function blocks()
        repeat
            local last, kind = bits(1), bits(2)
            if kind == 0 then
                stored()
            else
                if kind == 3 then error("kind") end
                local literals, distances
                if kind == 1 then literals, distances = fixed() else literals, distances = dynamic() end
                repeat
                    local what = symbol(literals)
                    if #out > limit then error("long") end
                    if what < 256 then
                        out[#out + 1] = what
                    elseif what > 256 then
                        copy(what, distances)
                    end
                until what == 256
            end
        until last == 1
    end
    if not pcall(blocks) or at + (bit > 0 and 1 or 0) ~= bytes:len() then return nil end
    local plain = ByteArray.new()
    plain:set_size(#out - #DICTIONARY)
    for place = #DICTIONARY + 1, #out do plain:set_index(place - #DICTIONARY - 1, out[place]) end
    return plain
end

-- Hellos --------------------------------------------------------------------------------------

-- The fields behind a hello's head, by their number: how long their values are at least, and how
-- they are shown.
local HELLO_FIELDS = {
    [1] = { 2, function(value, tree)
        local checks = tree:add(h.checks, value(0, 1))
        for _, it in ipairs({ h.short_real_time, h.short_others, h.urgent, h.repairs }) do checks:add(it, value(0, 1)) end
        tree:add(h.streams, value(1, 1))
    end },
    [2] = { 8, function(value, tree)
        tree:add(h.sent, value(0, 4))
        tree:add(h.received, value(4, 4))
    end },
    [3] = { 4, function(value, tree) tree:add(h.dictionary, value(0, 4)) end },
    [4] = { 1, function(value, tree)
        local sent = value(0, 1):uint()
        for at = 1, value:len() - 4, 4 do
            tree:add(at < 1 + 4 * sent and h.again_sent or h.again_received, value(at, 4))
        end
    end },
}

local function show_hello(whole, tree)
    tree:add(h.newest, whole(1, 1))
    tree:add(h.oldest, whole(2, 1))
    local flags = tree:add(h.flags, whole(3, 1))
    for _, it in ipairs({ h.compresses, h.was_heard, h.counts, h.rebuilds, h.far }) do flags:add(it, whole(3, 1)) end
    tree:add(h.contexts, whole(4, 1))
    tree:add(h.incarnation, whole(5, 4))
    tree:add(h.heard, whole(9, 4))
    tree:add(h.mtu, whole(13, 2))
    local at = 15
    while at + 2 <= whole:len() do
        local kind, octets = whole(at, 1):uint(), whole(at + 1, 1):uint()
        if at + 2 + octets > whole:len() then break end
        local known = HELLO_FIELDS[kind]
        if known and octets >= known[1] then
            known[2](whole:range(at + 2, octets):tvb(), tree)
        else
            tree:add(h.field, whole(at, 2 + octets))
        end
        at = at + 2 + octets
    end
    if at ~= whole:len() then tree:add_proto_expert_info(e.hello) end
end

-- Notes about repairs -------------------------------------------------------------------------

local function show_note(whole, tree)
    local flags = whole(1, 1):uint()
    for _, it in ipairs({ n.wish, n.asks, n.answers }) do tree:add(it, whole(1, 1)) end
    local at = 2
    for _, pair in ipairs({ { 0x02, n.from, n.next }, { 0x04, n.base, n.last } }) do
        if band(flags, pair[1]) ~= 0 and at + 2 <= whole:len() then
            tree:add(pair[2], whole(at, 1))
            tree:add(pair[3], whole(at + 1, 1))
            at = at + 2
        end
    end
    local base = at - 2
    if band(flags, 0x04) == 0 then return end
    for place = at, whole:len() - 1 do
        for bit = 0, 7 do
            if band(rshift(whole(place, 1):uint(), bit), 1) == 1 then
                local number = (whole(base, 1):uint() + 1 + (place - at) * 8 + bit) % 256
                tree:add(n.came, whole(place, 1), number)
            end
        end
    end
end

-- What a packet is ----------------------------------------------------------------------------

-- Each kind: a name, the dissector that reads it, and whether octets are of this kind. To teach the
-- dissector another one, add it here; the first that fits is taken.
local function u16(bytes, at)
    return bytes:get_index(at) * 256 + bytes:get_index(at + 1)
end
local KINDS = {
    {
        name = "IPv4",
        dissector = "ip",
        fits = function(bytes)
            return bytes:len() >= 20 and rshift(bytes:get_index(0), 4) == 4
                and band(bytes:get_index(0), 15) >= 5 and u16(bytes, 2) == bytes:len()
        end,
    },
    {
        name = "IPv6",
        dissector = "ipv6",
        fits = function(bytes)
            return bytes:len() >= 40 and rshift(bytes:get_index(0), 4) == 6
                and u16(bytes, 4) == bytes:len() - 40
        end,
    },
    {
        name = "hello",
        show = show_hello,
        fits = function(bytes) return bytes:len() >= 15 and bytes:get_index(0) == 0xf9 end,
    },
    {
        name = "note about repairs",
        show = show_note,
        fits = function(bytes) return bytes:len() >= 2 and bytes:get_index(0) == 0xfe end,
    },
    {
        name = "compressed payload",
        inflates = true,
        fits = function(bytes) return bytes:len() > 1 and bytes:get_index(0) == 0xff end,
    },
    {
        name = "ROHC",
        dissector = "rohc",
        compressed = true,
        fits = function(bytes) return bytes:len() > 0 end,
    },
}

local function kind_of(bytes)
    local carries = segments.prefs.carries
    for _, kind in ipairs(KINDS) do
        local allowed = carries == 0 or kind.dissector == nil or (carries == 2) == (kind.compressed == true)
        if allowed and kind.fits(bytes) then return kind end
    end
end

-- A packet that is whole, and what its own dissector says of it.
local function show_packet(packet, tree, pinfo, root)
    tree:add(f.octets, packet:len()):set_generated()
    if packet:len() == 0 then return end
    local whole = packet:tvb("Packet")
    tree:add(f.packet, whole()):set_generated()
    local kind = kind_of(packet)
    if not kind then return end
    tree:add(f.kind, kind.name):set_generated()
    if kind.show then
        pinfo.cols.info = kind.name
        kind.show(whole, tree)
    elseif kind.inflates then
        local plain = inflate(packet, 1)
        if not plain or plain:len() == 0 or plain:get_index(0) == 0xff then
            tree:add_proto_expert_info(e.payload)
            return
        end
        local inner = plain:tvb("Decompressed")
        tree:add(f.inflated, inner()):set_generated()
        kind = kind_of(plain)
        if kind and kind.dissector then Dissector.get(kind.dissector):call(inner, pinfo, root) end
    else
        Dissector.get(kind.dissector):call(whole, pinfo, root)
    end
end

-- Segments ------------------------------------------------------------------------------------

local function show(tvb, pinfo, root, it)
    local tree = root:add(segments, tvb())
    local head = tree:add(f.header, tvb(0, 1))
    for _, field in ipairs({ f.first, f.last, f.stream, f.sequence }) do head:add(field, tvb(0, 1)) end
    local place = (it.first and "F" or "-") .. (it.last and "L" or "-")
    tree:append_text(string.format(", %s, stream %d, sequence %d", place, it.stream, it.sequence))
    pinfo.cols.info = string.format("%s stream %d sequence %d", place, it.stream, it.sequence)
    if it.short then
        tree:add_proto_expert_info(e.short)
        return
    end
    local at = 1
    if it.number then
        tree:add(f.number, tvb(1, 1))
        tree:append_text(string.format(", number %d", it.number))
        pinfo.cols.info:append(string.format(" number %d", it.number))
        if it.again then tree:add(f.again, true):set_generated() end
        at = 2
    end
    if it.payload_octets > 0 then tree:add(f.payload, tvb(at, it.payload_octets)) end
    at = at + it.payload_octets
    if it.number and it.sum_octets > 0 then
        local sum = tree:add_le(f.sum, tvb(at, 4))
        if it.sum_ok ~= nil then sum:add(f.sum_ok, it.sum_ok):set_generated() end
        at = at + 4
    end
    local check = tree:add_le(f.check, tvb(at, it.check_octets))
    check:add(f.check_bits, it.check_octets * 8):set_generated()
    check:add(f.check_ok, it.check_ok):set_generated()
    if not it.check_ok then check:add_proto_expert_info(e.check) end
    if it.out_of_order then head:add_proto_expert_info(e.order) end
    if it.unfinished then head:add_proto_expert_info(e.unfinished) end
    if it.too_long then tree:add_proto_expert_info(e.long) end
    if not it.packet then return end
    tree:add(f.began, it.began):set_generated()
    tree:add(f.pieces, it.pieces):set_generated()
    show_packet(it.packet, tree, pinfo, root)
end

-- One segment; `place` tells several of a frame apart.
local function dissect(tvb, pinfo, root, place)
    pinfo.cols.protocol = "strait"
    if tvb:len() < 3 then
        root:add(segments, tvb()):add_proto_expert_info(e.short)
        return
    end
    local interface = interface_id()
    local key = tostring(interface and interface.value or 0)
    local name = pinfo.number .. "/" .. place
    local it = found[name]
    if not it then
        it = read(tvb:bytes(), key, pinfo.number)
        found[name] = it
    end
    show(tvb, pinfo, root, it)
end

function segments.dissector(tvb, pinfo, root)
    dissect(tvb, pinfo, root, 0)
    return tvb:len()
end

-- Octet streams -------------------------------------------------------------------------------

local FLAG, ESCAPE, MARK, FLIP, MASK = 0x7e, 0x7d, 0x7c, 0x20, 0xaa

-- By capture interface, what has begun and isn't ended; and by frame number, what was found.
local begun, seen = {}, {}

function line.init()
    begun, seen = {}, {}
end

local function put(bytes, octet)
    local one = ByteArray.new()
    one:set_size(1)
    one:set_index(0, octet)
    bytes:append(one)
end

-- Octets that an urgent frame has, once its length is there; `check` is the octets of its check.
local function urgent_octets(bytes, check)
    local first = bytes:get_index(0)
    local length, head = band(first, 0x3f), 1
    if band(first, 0x40) ~= 0 then
        if bytes:len() < 2 then return nil end
        length, head = length * 256 + bytes:get_index(1), 2
    end
    return head + length + check, head, length
end

local function urgent_of(bytes, head, length, check)
    local masked = band(bytes:get_index(0), 0x80) ~= 0
    local plain = ByteArray.new()
    for at = 0, bytes:len() - 1 do
        local octet = bytes:get_index(at)
        put(plain, (masked and at >= head) and bxor(octet, MASK) or octet)
    end
    local sum = crc(check == 2 and CRC16 or CRC32, plain:subset(0, head + length))
    return { masked = masked, length = length, ok = sum == sent_check(plain, check),
        packet = plain:subset(head, length) }
end

-- Takes one octet; adds to `items` what ends with it. `check` is the octets of the check of urgent
-- frames, nil where no mark begins one.
local function feed(way, octet, items, check)
    local marks = check ~= nil
    local urgent = way.urgent
    local function escape_ends(plain)
        return plain == FLAG or plain == ESCAPE or (marks and plain == MARK)
    end
    if marks and octet == MARK then
        if urgent then
            items[#items + 1] = { given_up = true }
            way.skips = true
        end
        way.urgent = { bytes = ByteArray.new() }
    elseif octet == FLAG then
        items.flags = items.flags + 1
        if urgent then
            items[#items + 1] = { given_up = true }
        elseif way.escaped or way.wrong then
            items[#items + 1] = { wrong = true }
        elseif way.frame:len() > 0 and not way.skips then
            items[#items + 1] = { frame = way.frame }
        end
        way.frame, way.escaped, way.wrong, way.skips, way.urgent = ByteArray.new()
    else
        local to = urgent or way
        local plain = octet
        if to.escaped then
            plain, to.escaped = bxor(octet, FLIP), nil
            if not escape_ends(plain) then
                if urgent then
                    items[#items + 1] = { given_up = true }
                    way.urgent, way.skips = nil, true
                else
                    way.wrong = true
                end
                return
            end
        elseif octet == ESCAPE then
            to.escaped = true
            items.escapes = items.escapes + 1
            return
        end
        if not urgent then
            put(way.frame, plain)
            return
        end
        put(urgent.bytes, plain)
        local octets, head, length = urgent_octets(urgent.bytes, check)
        if octets and length == 0 then
            items[#items + 1] = { given_up = true }
            way.urgent, way.skips = nil, true
        elseif octets and urgent.bytes:len() == octets then
            local it = urgent_of(urgent.bytes, head, length, check)
            it.inside = way.frame:len() > 0 or way.escaped == true
            items[#items + 1] = { urgent = it }
            way.urgent = nil
        end
    end
end

local function show_urgent(it, tvb, tree, pinfo, root)
    local head = tree:add(uf.frame, tvb())
    head:add(uf.inside, it.inside):set_generated()
    head:add(uf.masked, it.masked):set_generated()
    head:add(uf.length, it.length):set_generated()
    head:add(uf.check_ok, it.ok):set_generated()
    if it.ok then
        pinfo.cols.info = "urgent" .. (it.inside and ", inside another frame" or "")
        show_packet(it.packet, head, pinfo, root)
    else
        head:add_proto_expert_info(urgent_wrong)
    end
end

local function dissect_line(proto, tvb, pinfo, root, check)
    pinfo.cols.protocol = "strait"
    local tree = root:add(proto, tvb())
    local items = seen[pinfo.number]
    if not items then
        local interface = interface_id()
        local key = tostring(interface and interface.value or 0)
        local way = begun[key] or { frame = ByteArray.new() }
        begun[key] = way
        items = { flags = 0, escapes = 0 }
        local bytes = tvb:bytes()
        for at = 0, bytes:len() - 1 do feed(way, bytes:get_index(at), items, check) end
        seen[pinfo.number] = items
    end
    tree:add(lf.flags, items.flags):set_generated()
    tree:add(lf.escapes, items.escapes):set_generated()
    for place, it in ipairs(items) do
        if it.frame then
            local frame = it.frame:tvb("Frame " .. place)
            tree:add(lf.frame, frame())
            dissect(frame, pinfo, root, place)
        elseif it.urgent then
            show_urgent(it.urgent, tvb, tree, pinfo, root)
        else
            tree:add_proto_expert_info(it.wrong and le.escape or le.given_up)
        end
    end
    return tvb:len()
end

function line.dissector(tvb, pinfo, root)
    return dissect_line(line, tvb, pinfo, root, nil)
end

function urgent_line.dissector(tvb, pinfo, root)
    return dissect_line(urgent_line, tvb, pinfo, root, urgent_line.prefs.check / 8)
end

-- Where they are found ------------------------------------------------------------------------

DissectorTable.get("wtap_encap"):add(wtap.USER0, segments)
DissectorTable.get("wtap_encap"):add(wtap.USER1, line)
DissectorTable.get("wtap_encap"):add(wtap.USER2, urgent_line)
DissectorTable.get("udp.port"):add_for_decode_as(segments)
DissectorTable.get("ip.proto"):add_for_decode_as(segments)
