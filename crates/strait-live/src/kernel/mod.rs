//! What the kernel has and does for a gateway: interfaces, addresses and routes over netlink,
//! namespaces, priority, randomness.

pub(crate) mod entropy;
pub(crate) mod learned_routes;
pub(crate) mod led_routes;
pub mod namespace;
pub mod netlink;
pub(crate) mod networks;
pub mod proxy_check;
pub mod proxy_rules;
pub mod schedule;
