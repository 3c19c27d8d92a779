//! What becomes of packets that take long.

use super::*;

#[test]
fn all_that_waited_for_a_lost_packet_has_room_before_a_host() {
    const COUNT: u64 = 300;
    let keys = "hbh = { in_order = [17], window = 400 }";
    let text = END.replace("\"hbh\"", &format!("\"hbh\"\n{keys}"));
    let mut nodes = [node(&text, 1), node(&text, 2)];
    talk(ms(0), &mut nodes, &PAIR);
    let bytes = udp("10.1.0.2", "10.2.0.2", 1000, 0);
    for number in 0..COUNT {
        let at = ms(100 + number);
        nodes[0].handle(at, frame(PortId::HOST, &bytes));
        let octets = pull(&mut nodes[0], HOP, at, 2000);
        // The second is lost.
        if number != 1 {
            nodes[1].handle(at, frame(HOP, &octets));
        }
    }
    for at in [400, 800, 1200] {
        talk(ms(at), &mut nodes, &PAIR);
    }
    assert_eq!(nodes[1].stats().dropped.total(), 0);
    let came = pull_all(&mut nodes[1], PortId::HOST, ms(1200)).len();
    assert_eq!(came as u64, COUNT);
}

#[test]
fn what_tcp_repeats_is_kept_until_the_neighbour_has_it() {
    let mut nodes = [node(END, 1), node(END, 2)];
    talk(ms(0), &mut nodes, &PAIR);
    let segment = tcp(0x10, 1000, &[], &[7; 500]);
    // Its age is 60 s, and its sender repeats it meanwhile.
    for at in [1, 1000, 3000, 7000, 15_000, 31_000] {
        nodes[0].handle(ms(at), frame(PortId::HOST, &segment));
        while !pull(&mut nodes[0], HOP, ms(at), 2000).is_empty() {}
    }
    for at in 32..70 {
        nodes[0].handle(ms(at * 1000), Input::Timeout);
        while !pull(&mut nodes[0], HOP, ms(at * 1000), 2000).is_empty() {}
    }
    assert_eq!(nodes[0].stats().absorbed, 5);
    assert_eq!(nodes[0].stats().dropped.total(), 0);
    for at in 70..90 {
        talk(ms(at * 1000), &mut nodes, &PAIR);
    }
    assert_eq!(pull_all(&mut nodes[1], PortId::HOST, ms(90_000)), [segment]);
}
