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
        "class-honest-connect",
        "class-early-connect",
        "lab-wrong-octets",
        "lab-nothing-left",
    ]);
}
