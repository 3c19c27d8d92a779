//! Questions in others' names.

use super::*;

use crate::gains::GAIN_OCTETS_S;

#[test]
fn who_is_asked_in_anothers_name_sends_him_half_a_megaoctet_a_second_at_most() {
    let mut near = near();
    let asked = question(1, "long.example", RecordType::TXT);
    near.hear_client(at(0), client(0), &asked);
    let (id, types) = read(&frames(&mut near, at(20), 0)[0]);
    let text = Body {
        records: vec![[&[200][..], &[b'x'; 200]].concat(); 2],
        ..address(600)
    };
    near.hear_partner(at(1000), 0, &answer(id, types, vec![text]));
    replies(&mut near, at(1000));
    // 2000 questions a second in another's name, for 10 s.
    let (mut sent, mut cut) = (0, 0);
    for n in 0..20_000 {
        let now = at(2000 + n / 2);
        near.hear_client(now, client(1), &asked);
        let (_, reply) = near.poll_reply().unwrap();
        sent += reply.len().saturating_sub(asked.len()) as u64;
        let message = Message::from_vec(&reply).unwrap();
        assert_eq!(message.queries.len(), 1);
        if message.metadata.truncation {
            cut += 1;
            assert!(reply.len() <= asked.len() && message.answers.is_empty());
        }
    }
    assert!(sent <= GAIN_OCTETS_S * 11, "{sent}");
    assert_eq!(near.stats().own.cut, cut);
    assert!(cut > 3000, "{cut}");
    near.hear_client(at(12_000), client(2), &asked);
    let (_, whole) = near.poll_reply().unwrap();
    assert!(whole.len() > 400);
    // Who has a stream is who he says.
    let stream = Client {
        stream: Some(1),
        ..client(1)
    };
    near.hear_client(at(12_000), stream, &asked);
    assert!(near.poll_reply().unwrap().1.len() > 400);
    near.check();
}
