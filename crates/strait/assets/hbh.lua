
-- Reliable hops -------------------------------------------------------------------------------
--
-- docs/wire-format/hbh.md and hbh-paper.md.
--
-- LINKTYPE_USER3 (150): one frame, as `--pcap` writes it for the profile `hbh`.
-- UDP, IP: choose `strait_hbh` by "Decode As", or tshark -d udp.port==PORT,strait_hbh

local hops = Proto("strait_hbh", "strait reliable hop")
hops.prefs.check = Pref.enum("Check", 0, "Bits of the check of frames: the port's key `check`", CHECKS, false)

local hf = {
    kind = ProtoField.string("strait_hbh.kind", "Kind"),
    version = ProtoField.uint8("strait_hbh.version", "Version", base.HEX),
    asks = ProtoField.bool("strait_hbh.asks", "An answer is wanted", 8, nil, 0x01),
    wide = ProtoField.bool("strait_hbh.wide", "Long maps, far headers and ingress order are read", 8, nil, 0x02),
    incarnation = ProtoField.uint32("strait_hbh.incarnation", "Incarnation", base.HEX),
    heard = ProtoField.uint32("strait_hbh.heard", "Incarnation heard", base.HEX),
    head = ProtoField.uint8("strait_hbh.head", "Parts", base.HEX),
    prompt = ProtoField.bool("strait_hbh.prompt", "What is acknowledged has just come", 8, nil, 0x40),
    has_packet = ProtoField.bool("strait_hbh.has_packet", "Packet", 8, nil, 0x20),
    has_ack = ProtoField.bool("strait_hbh.has_ack", "Acknowledgement", 8, nil, 0x10),
    words = ProtoField.uint8("strait_hbh.words", "Words of the map", base.DEC, nil, 0x0c),
    has_stop = ProtoField.bool("strait_hbh.has_stop", "Stop", 8, nil, 0x02),
    has_base = ProtoField.bool("strait_hbh.has_base", "Base", 8, nil, 0x01),
    missing = ProtoField.uint16("strait_hbh.missing", "First packet that is missing"),
    newest = ProtoField.uint16("strait_hbh.newest", "Newest serial received"),
    map_words = ProtoField.uint8("strait_hbh.map_words", "Words of a long map", base.DEC, nil, 0x7f),
    cut = ProtoField.bool("strait_hbh.cut", "More came than the map tells", 8, nil, 0x80),
    map = ProtoField.bytes("strait_hbh.map", "Map"),
    behind = ProtoField.uint16("strait_hbh.behind", "Came behind it"),
    stop = ProtoField.uint8("strait_hbh.stop", "Tags that are stopped", base.HEX),
    base = ProtoField.uint16("strait_hbh.base", "Oldest packet that is still sent"),
    sequence = ProtoField.uint16("strait_hbh.sequence", "Sequence number"),
    serial = ProtoField.uint16("strait_hbh.serial", "Serial"),
    tag = ProtoField.uint8("strait_hbh.tag", "Tag", base.DEC, nil, 0xe0),
    order = ProtoField.uint8("strait_hbh.order", "Order", base.DEC, nil, 0x1f),
    lifetime = ProtoField.double("strait_hbh.lifetime", "Lifetime [s]"),
    ingress = ProtoField.uint16("strait_hbh.ingress", "Came into the network by", base.HEX),
    number = ProtoField.uint16("strait_hbh.number", "Its number there"),
    before = ProtoField.framenum("strait_hbh.before", "Was sent before in frame"),
    relative = ProtoField.framenum("strait_hbh.relative", "Headers are told by those of frame"),
    packet = ProtoField.bytes("strait_hbh.packet", "Packet"),
    others = ProtoField.uint16("strait_hbh.others", "And of"),
    sum = ProtoField.bytes("strait_hbh.sum", "Sum"),
    check = ProtoField.uint32("strait_hbh.check", "Check", base.HEX),
    check_ok = ProtoField.bool("strait_hbh.check_ok", "Check is right"),
    flow = ProtoField.uint16("strait_hbh.flow", "Flow", base.HEX),
    option = ProtoField.uint8("strait_hbh.option", "Option", base.DEC, nil, 0x3f),
    protocol = ProtoField.uint8("strait_hbh.protocol", "Protocol"),
    retries = ProtoField.uint8("strait_hbh.reserved", "Reserved"),
}
local he = {
    short = ProtoExpert.new("strait_hbh.short", "Ends within a part",
        expert.group.MALFORMED, expert.severity.ERROR),
    check = ProtoExpert.new("strait_hbh.check_wrong", "Check is wrong",
        expert.group.CHECKSUM, expert.severity.ERROR),
    again = ProtoExpert.new("strait_hbh.again", "Sent again",
        expert.group.SEQUENCE, expert.severity.NOTE),
    headers = ProtoExpert.new("strait_hbh.headers_unreadable",
        "The packet whose headers these are told by isn't in the capture",
        expert.group.UNDECODED, expert.severity.NOTE),
}
hops.fields = {}
for _, field in pairs(hf) do table.insert(hops.fields, field) end
hops.experts = { he.short, he.check, he.again, he.headers }

local HELLO, PARITY, PUBLISHED = 0x0b, 0x0c, 0x80

-- By direction: its incarnations, told by hellos, and the octets of its check. By incarnation:
-- those of its other ends. By both: what was sent under each number. By frame number: what was
-- found out. Of incarnations the last few count: hellos are no secret.
local ways, partners, links, judged = {}, {}, {}, {}
local LIVES = 4

function hops.init()
    ways, partners, links, judged = {}, {}, {}, {}
end

local function way_of(pinfo)
    local interface = interface_id()
    local key = string.format("%s %s:%d %s:%d", interface and interface.value or 0,
        tostring(pinfo.src), pinfo.src_port, tostring(pinfo.dst), pinfo.dst_port)
    ways[key] = ways[key] or { lives = {}, begun = {}, unknown = { sent = {} } }
    return ways[key]
end

-- Puts what was told last to the front of a list.
local function note(list, life)
    for at, known in ipairs(list) do
        if known == life then table.remove(list, at) end
    end
    table.insert(list, 1, life)
    list[LIVES + 1] = nil
end

local function note_partner(life, other)
    partners[life] = partners[life] or {}
    note(partners[life], other)
end

local function note_hello(way, bytes)
    local own, other = bytes:subset(3, 4):tohex(), bytes:subset(7, 4):tohex()
    note(way.lives, own)
    if other ~= "00000000" then
        note_partner(own, other)
        note_partner(other, own)
    end
    way.published = bytes:get_index(1) == PUBLISHED
end

-- By the highest octet of an entry, which no two share, where it stands.
local function places(kind)
    local by_top, bits = {}, kind == CRC16 and 8 or 24
    for octet = 0, 255 do by_top[rshift(kind.entries[octet], bits)] = octet end
    return by_top
end
local PLACES = { [2] = places(CRC16), [4] = places(CRC32) }

-- What a frame's check began with, from what it came to: the incarnations that it covers, whoever
-- they are, leave the same for all frames between them.
local function beginning(bytes, octets)
    local kind, by_top = octets == 2 and CRC16 or CRC32, PLACES[octets]
    local sum = bxor(sent_check(bytes, octets), kind.ones)
    for at = bytes:len() - octets - 1, 0, -1 do
        local place = by_top[rshift(sum, octets * 8 - 8)]
        sum = bxor(sum, kind.entries[place])
        sum = sum * 256 + bxor(place, bytes:get_index(at))
    end
    return sum
end

-- The octets of checks where no hello tells them: two frames in a row that agree on what was before
-- them, or 32 bits, the usual ones.
local function without_hello(way, bytes)
    for _, octets in ipairs({ 4, 2 }) do
        local sum = bytes:len() > octets and beginning(bytes, octets)
        if sum and way.begun[octets] == sum then way.octets = octets end
        way.begun[octets] = sum
        if way.octets then return way.octets end
    end
    return 4
end

-- Finds the octets of a frame's check, whether it is right, and the link that it tells of; nothing
-- of the latter two where the incarnations that it covers aren't known.
local function judge_frame(bytes, way, is_hello)
    local function fits(octets, ahead)
        if bytes:len() <= octets then return false end
        local kind = octets == 2 and CRC16 or CRC32
        return sent_check(bytes, octets) == crc(kind, ahead, bytes:subset(0, bytes:len() - octets))
    end
    local usual = hops.prefs.check > 0 and hops.prefs.check / 8 or way.octets
    if is_hello then
        local ahead = ByteArray.new()
        if not usual then usual = fits(4, ahead) and 4 or 2 end
        local ok = fits(usual, ahead)
        if ok and bytes:len() >= 11 + usual then
            way.octets = usual
            note_hello(way, bytes)
        end
        return usual, ok
    end
    usual = usual or without_hello(way, bytes)
    local tried = false
    for _, own in ipairs(way.lives) do
        for _, other in ipairs(partners[own] or {}) do
            tried = true
            if fits(usual, ByteArray.new(own .. other)) then
                links[own .. other] = links[own .. other] or { sent = {} }
                return usual, true, links[own .. other]
            end
        end
    end
    if tried then return usual, false, { sent = {} } end
    return usual, nil, way.unknown
end

-- Headers told by those of an earlier packet --------------------------------------------------

-- Where the octets stand that are told, in their order, and where the payload begins; nil if
-- headers aren't told of such a packet.
local function told_places(bytes)
    local places = {}
    local function add(first, last)
        for at = first, last do places[#places + 1] = at end
    end
    local version = rshift(bytes:get_index(0), 4)
    local protocol, head
    if bytes:len() >= 20 and bytes:get_index(0) == 0x45 and u16(bytes, 2) == bytes:len()
        and band(u16(bytes, 6), 0x3fff) == 0 then
        add(1, 1)
        add(4, 8)
        protocol, head = bytes:get_index(9), 20
    elseif version == 6 and bytes:len() >= 40 and u16(bytes, 4) == bytes:len() - 40 then
        add(0, 3)
        add(7, 7)
        protocol, head = bytes:get_index(6), 40
    else
        return nil
    end
    local ends = head
    if protocol == 6 then
        if bytes:len() < head + 20 then return nil end
        ends = head + 4 * rshift(bytes:get_index(head + 12), 4)
        if ends < head + 20 then return nil end
        add(head + 4, head + 15)
        add(head + 18, ends - 1)
        add(head + 16, head + 17)
    elseif protocol == 17 then
        ends = head + 8
        if ends > bytes:len() or u16(bytes, head + 4) ~= bytes:len() - head then return nil end
        add(head + 6, head + 7)
    elseif protocol == 50 then
        ends = head + 8
        add(head + 4, head + 7)
    elseif protocol == 1 or protocol == 58 then
        ends = head + 8
        add(head, head + 7)
    end
    if ends > bytes:len() then return nil end
    return places, ends, head, protocol == 17
end

local function put_u16(bytes, at, value)
    bytes:set_index(at, rshift(value, 8))
    bytes:set_index(at + 1, band(value, 0xff))
end

-- The packet whose headers `told` says by what differs from those of `earlier`.
local function rebuild(told, earlier)
    local places, ends, head, has_length = told_places(earlier)
    if not places then return nil end
    local bytes = earlier:subset(0, ends)
    local at, place = told:get_index(0) == 0x80 and 3 or 1, 1
    while place <= #places do
        if at >= told:len() then return nil end
        local code = told:get_index(at)
        at = at + 1
        if code == 0 then break end
        place = place + rshift(code, 4)
        for _ = 1, band(code, 15) do
            if place > #places or at >= told:len() then return nil end
            bytes:set_index(places[place], told:get_index(at))
            at, place = at + 1, place + 1
        end
    end
    if ends + told:len() - at > 65535 then return nil end
    if at < told:len() then bytes:append(told:subset(at, told:len() - at)) end
    if head == 20 then
        put_u16(bytes, 2, bytes:len())
        put_u16(bytes, 10, 0)
        local sum = 0
        for word = 0, 18, 2 do sum = sum + u16(bytes, word) end
        while sum > 0xffff do sum = band(sum, 0xffff) + rshift(sum, 16) end
        put_u16(bytes, 10, 0xffff - sum)
    else
        put_u16(bytes, 4, bytes:len() - 40)
    end
    if has_length then put_u16(bytes, head + 4, bytes:len() - head) end
    return bytes
end

-- Frames --------------------------------------------------------------------------------------

-- What there is of a packet: octets, the frame that carried it before, and that by whose headers
-- it is told.
local function read_packet(bytes, link, sequence, number)
    local it = {}
    local before = link.sent[sequence]
    it.before = before and before.number
    if band(bytes:get_index(0), 0x80) == 0 then
        it.packet = bytes
    else
        local distance = band(bytes:get_index(0), 0x7f)
        if distance == 0 and bytes:len() >= 3 then distance = u16(bytes, 1) end
        local earlier = link.sent[(sequence - distance) % 65536]
        it.told = true
        if earlier and earlier.packet then
            it.relative, it.packet = earlier.number, rebuild(bytes, earlier.packet)
        end
    end
    -- A number is of use until it comes round again, or is asked for from a window behind.
    link.sent[sequence] = { packet = it.packet, number = it.before or number }
    link.sent[(sequence + 32768) % 65536] = nil
    return it
end

local function show_lifetime(range, tree)
    local code = range:uint()
    local exponent, mantissa = rshift(code, 4), band(code, 15)
    if code == 0xff then
        tree:add(hf.lifetime, range, math.huge):append_text(": no limit")
    else
        tree:add(hf.lifetime, range, (exponent == 0 and mantissa or (16 + mantissa) * 2 ^ (exponent - 1)) / 100)
    end
end

local function show_life(tvb, tree)
    tree:add(hf.version, tvb(1, 1))
    tree:add(hf.asks, tvb(2, 1))
    tree:add(hf.wide, tvb(2, 1))
    tree:add(hf.incarnation, tvb(3, 4))
    tree:add(hf.heard, tvb(7, 4))
end

local function show_parity(tvb, tree)
    tree:add(hf.tag, tvb(1, 1))
    tree:add(hf.sequence, tvb(2, 2))
    tree:add(hf.serial, tvb(4, 2))
    for bit = 0, 31 do
        if tvb(6, 4):bitfield(31 - bit, 1) == 1 then
            tree:add(hf.others, tvb(6, 4), (tvb(2, 2):uint() + 1 + bit) % 65536)
        end
    end
    if tvb:len() > 10 then tree:add(hf.sum, tvb(10)) end
end

-- Acknowledgement, stop and base; where the packet begins, or nil if the frame ends before.
local function show_parts(tvb, tree)
    local head = tvb(0, 1):uint()
    local parts = tree:add(hf.head, tvb(0, 1))
    for _, part in ipairs({ hf.prompt, hf.has_packet, hf.has_ack, hf.words, hf.has_stop, hf.has_base }) do
        parts:add(part, tvb(0, 1))
    end
    local at = 1
    local function take(octets)
        if at + octets > tvb:len() then return nil end
        at = at + octets
        return tvb(at - octets, octets)
    end
    local is_long = band(head, 0x1c) == 0x04
    if is_long or band(head, 0x10) ~= 0 then
        local ack = take(4)
        if not ack then return nil end
        tree:add(hf.missing, ack(0, 2))
        tree:add(hf.newest, ack(2, 2))
        local words = band(rshift(head, 2), 3)
        if is_long then
            local told = take(1)
            if not told then return nil end
            tree:add(hf.map_words, told)
            tree:add(hf.cut, told)
            words = band(told:uint(), 0x7f)
        end
        for word = 0, words - 1 do
            local map = take(4)
            if not map then return nil end
            local came = tree:add(hf.map, map)
            for bit = 0, 31 do
                if map:bitfield(31 - bit, 1) == 1 then
                    came:add(hf.behind, map, (ack(0, 2):uint() + 1 + 32 * word + bit) % 65536)
                end
            end
        end
    end
    if band(head, 0x02) ~= 0 then
        local stop = take(1)
        if not stop then return nil end
        tree:add(hf.stop, stop)
    end
    if band(head, 0x01) ~= 0 then
        local base = take(2)
        if not base then return nil end
        tree:add(hf.base, base)
    end
    return at
end

local function show_content(tvb, tree, pinfo, root, it)
    local at = show_parts(tvb, tree)
    if not at then return tree:add_proto_expert_info(he.short) end
    if band(tvb(0, 1):uint(), 0x20) == 0 then
        if at < tvb:len() then tree:add_proto_expert_info(he.short) end
        return
    end
    if at + 11 > tvb:len() then return tree:add_proto_expert_info(he.short) end
    local sequence = tvb(at, 2):uint()
    tree:add(hf.sequence, tvb(at, 2))
    tree:add(hf.serial, tvb(at + 2, 2))
    tree:add(hf.tag, tvb(at + 4, 1))
    tree:add(hf.order, tvb(at + 4, 1))
    show_lifetime(tvb(at + 5, 1), tree)
    tree:add(hf.ingress, tvb(at + 6, 2))
    tree:add(hf.number, tvb(at + 8, 2))
    pinfo.cols.info = string.format("packet %d", sequence)
    local range = tvb(at + 10)
    it.carried = it.carried or read_packet(range:bytes(), it.link, sequence, pinfo.number)
    if it.carried.before then
        tree:add(hf.before, it.carried.before):set_generated()
        tree:add_proto_expert_info(he.again)
    end
    if it.carried.relative then tree:add(hf.relative, it.carried.relative):set_generated() end
    local packet = it.carried.packet
    if not packet then
        tree:add(hf.packet, range)
        tree:add_proto_expert_info(he.headers)
        return
    end
    local whole = it.carried.told and packet:tvb("Packet") or range:tvb()
    tree:add(hf.packet, whole())
    local kind = kind_of(packet)
    if kind and kind.dissector and it.ok ~= false then Dissector.get(kind.dissector):call(whole, pinfo, root) end
end

-- The published format's header and its ranges; data has the IP header before it.
local function show_published(tvb, tree, pinfo)
    local version = rshift(tvb(0, 1):uint(), 4)
    local at = version == 4 and 4 * band(tvb(0, 1):uint(), 15) or version == 6 and 40 or 0
    if at + 8 > tvb:len() then return tree:add_proto_expert_info(he.short) end
    tree:add(hf.kind, at > 0 and "published: data" or "published: acknowledgement")
    pinfo.cols.info = at > 0 and "data" or "acknowledgement"
    tree:add(hf.option, tvb(at, 1))
    tree:add(hf.sequence, tvb(at + 1, 1))
    tree:add(hf.flow, tvb(at + 2, 2))
    tree:add(hf.check, tvb(at + 4, 2))
    tree:add(hf.protocol, tvb(at + 6, 1))
    tree:add(hf.retries, tvb(at + 7, 1))
end

function hops.dissector(tvb, pinfo, root)
    if tvb:len() == 0 then return 0 end
    pinfo.cols.protocol = "strait hop"
    local tree = root:add(hops, tvb())
    local first = tvb(0, 1):uint()
    local way = way_of(pinfo)
    local is_hello = first == HELLO
    if way.published and not is_hello then
        show_published(tvb, tree, pinfo)
        return tvb:len()
    end
    local it = judged[pinfo.number]
    if not it then
        it = {}
        it.octets, it.ok, it.link = judge_frame(tvb:bytes(), way, is_hello)
        judged[pinfo.number] = it
    end
    local least = is_hello and 11 or first == PARITY and 10 or 1
    if tvb:len() < least + it.octets then
        tree:add_proto_expert_info(he.short)
        return tvb:len()
    end
    local place = tvb:len() - it.octets
    local inner = tvb(0, place):tvb()
    local check = tree:add_le(hf.check, tvb(place, it.octets))
    if it.ok ~= nil then check:add(hf.check_ok, it.ok):set_generated() end
    if it.ok == false then check:add_proto_expert_info(he.check) end
    if is_hello then
        tree:add(hf.kind, "hello"):set_generated()
        pinfo.cols.info = "hello"
        show_life(inner, tree)
    elseif first == PARITY then
        tree:add(hf.kind, "parity"):set_generated()
        pinfo.cols.info = "parity"
        show_parity(inner, tree)
    elseif first >= 0x80 then
        tree:add(hf.kind, "content"):set_generated()
        pinfo.cols.info = "acknowledgement"
        show_content(inner, tree, pinfo, root, it)
    end
    return tvb:len()
end

DissectorTable.get("wtap_encap"):add(wtap.USER3, hops)
DissectorTable.get("udp.port"):add_for_decode_as(hops)
DissectorTable.get("ip.proto"):add_for_decode_as(hops)
