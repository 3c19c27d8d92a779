//! TCP proxies that programs ask by themselves.

use super::{can_run, compared};

#[test]
fn pages_ask_for_their_connections_live_as_in_virtual_time() {
    if !can_run("lab explicit") {
        return;
    }
    let told = compared("explicit.toml");
    told.expect_all(&[
        "explicit-socks-time",
        "explicit-connect-time",
        "explicit-brought-time",
        "class-early-connect",
        "agree-socks-time",
        "agree-connect-time",
        "agree-brought-time",
        "lab-wrong-octets",
        "lab-nothing-left",
    ]);
}
