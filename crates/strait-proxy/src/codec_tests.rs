use alloc::vec;

use proptest::prelude::*;

use super::*;

fn written(head: Head, items: &[Item<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_head(head, &mut bytes);
    items.iter().for_each(|item| write_item(item, &mut bytes));
    bytes
}

#[test]
fn datagrams_are_these_octets() {
    let hello = Head::Hello {
        to: 0,
        from: 0x0102_0304,
        first: 300,
    };
    let bytes = [0x20, 0, 0, 0, 0, 1, 2, 3, 4, 0xac, 2];
    assert_eq!(written(hello, &[]), bytes);
    assert_eq!(read(&bytes).unwrap().0, hello);
    let networks = ["10.1.2.0/24", "fd00::/8"].map(|it| Item::Network(it.parse().unwrap()));
    let announcing = written(hello, &networks);
    let four = [7, 4, 24, 10, 1, 2, 0];
    assert_eq!(announcing[bytes.len()..][..7], four);
    assert_eq!(announcing[bytes.len() + 7..][..5], [7, 6, 8, 0xfd, 0]);
    assert_eq!(announcing.len(), bytes.len() + 7 + 19);
    let key = Key { ours: true, n: 5 };
    let ends = Ends {
        client: "10.1.0.2:258".parse().unwrap(),
        server: "10.2.0.3:80".parse().unwrap(),
    };
    let items = [
        Item::Open {
            n: 5,
            dscp: 10,
            ends,
        },
        Item::Data {
            key,
            offset: 0,
            end: true,
            octets: b"hi",
        },
        Item::Accept { n: 1 },
        Item::Credit {
            key: Key { ours: false, n: 1 },
            limit: 128,
        },
        Item::Reset { key, error: 111 },
        Item::Ack(vec![(9, 9), (4, 6)]),
    ];
    let head = Head::Items {
        to: 0x0a0b_0c0d,
        number: Some(7),
    };
    let bytes = written(head, &items);
    #[rustfmt::skip]
    let expected = [
        0x21, 10, 11, 12, 13, 7,
        1, 5, 10, 4, 10, 1, 0, 2, 1, 2, 10, 2, 0, 3, 0, 80,
        0xc3, 5, 0, 2, b'h', b'i',
        2, 1,
        4, 1, 0x80, 1,
        0x85, 5, 111,
        6, 1, 9, 0, 1, 2,
    ];
    assert_eq!(bytes, expected);
}

fn address() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    let four = any::<(([u8; 4], u16), ([u8; 4], u16))>().prop_map(|(a, b)| (a.into(), b.into()));
    let six = any::<(([u16; 8], u16), ([u16; 8], u16))>().prop_map(|(a, b)| (a.into(), b.into()));
    prop_oneof![four, six]
}

fn key() -> impl Strategy<Value = Key> {
    any::<(bool, u32)>().prop_map(|(ours, n)| Key { ours, n })
}

fn item() -> impl Strategy<Value = Item<'static>> {
    let place = 0..1_u64 << 62;
    let octets: &'static [u8] = &[7; 300];
    prop_oneof![
        (any::<u32>(), 0..64_u8, address()).prop_map(|(n, dscp, (client, server))| Item::Open {
            n,
            dscp,
            ends: Ends { client, server }
        }),
        any::<u32>().prop_map(|n| Item::Accept { n }),
        (key(), place.clone(), any::<bool>(), 0..300_usize).prop_map(
            move |(key, offset, end, count)| Item::Data {
                key,
                offset,
                end,
                octets: &octets[..count]
            }
        ),
        (key(), place).prop_map(|(key, limit)| Item::Credit { key, limit }),
        (key(), any::<u16>()).prop_map(|(key, error)| Item::Reset { key, error }),
        proptest::collection::vec((0..500_u64, 0..500_u64), 1..=ACK_RANGES_MAX).prop_map(|all| {
            let mut next = 1 << 20;
            Item::Ack(
                all.iter()
                    .map(|(gap, length)| {
                        let last = next - gap;
                        next = last - length - 2;
                        (last - length, last)
                    })
                    .collect(),
            )
        }),
    ]
}

proptest! {
    #[test]
    fn items_come_out_as_they_went_in(
        to in any::<u32>(),
        number in proptest::option::of(0..1_u64 << 62),
        items in proptest::collection::vec(item(), 0..6),
    ) {
        let head = Head::Items { to, number };
        let bytes = written(head, &items);
        let (read_head, mut reader) = read(&bytes).unwrap();
        prop_assert_eq!(read_head, head);
        for item in items {
            prop_assert_eq!(reader.item(), Ok(Some(item)));
        }
        prop_assert_eq!(reader.item(), Ok(None));
    }

    #[test]
    fn whatever_comes_is_read_to_its_end_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..80)
    ) {
        if let Ok((_, mut reader)) = read(&bytes) {
            while let Ok(Some(_)) = reader.item() {}
        }
    }
}
