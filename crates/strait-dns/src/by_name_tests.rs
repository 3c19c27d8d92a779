//! Connections that are asked for by name.

use super::*;

#[test]
fn a_name_is_connected_to_by_the_address_that_it_goes_by_until_it_is_known() {
    let settings = NearSettings {
        ahead: Some(crate::ahead::RANGE),
        ..settings()
    };
    let mut near = Near::new(settings, 1);
    near.set_link(0, Some(LINK));
    let ahead: IpAddr = [198, 19, 0, 1].into();
    assert_eq!(near.address_of(at(0), client(1), "a..b"), None);
    let place = near.address_of(at(0), client(1), "New.example");
    assert_eq!(place, Some((ahead, Some(0))));
    // Its question crosses at once, for both families, and clients hear nothing ahead.
    let sent = frames(&mut near, at(0), 0);
    let Some(Frame::Question {
        id,
        types,
        ahead: told,
        ..
    }) = Frame::read(&sent[0])
    else {
        panic!("no question");
    };
    assert_eq!(
        (types, told),
        (Types::Together(3), Some([198, 19, 0, 1].into()))
    );
    let asked = question(1, "new.example", RecordType::A);
    near.hear_client(at(0), client(2), &asked);
    assert!(replies(&mut near, at(0)).is_empty());
    assert!(frames(&mut near, at(100), 0).is_empty());
    let none = Body::missing(Outcome::NoData, 60, 1);
    near.hear_partner(
        at(500),
        0,
        &answer(id, types, vec![address(60), none.clone()]),
    );
    let known = near.address_of(at(600), client(1), "new.example");
    assert_eq!(known, Some(([192, 0, 2, 1].into(), Some(0))));
    // One that has nothing has nothing.
    near.address_of(at(600), client(1), "none.example");
    let sent = frames(&mut near, at(600), 0);
    let (id, types) = read(&sent[0]);
    near.hear_partner(at(700), 0, &answer(id, types, vec![none.clone(), none]));
    assert_eq!(near.address_of(at(800), client(1), "none.example"), None);
}
