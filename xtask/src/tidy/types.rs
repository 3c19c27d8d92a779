//! How much one type may be: methods and fields, wherever its `impl` blocks stand.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, ImplItem, Item, Meta, Type};

use super::{Finding, Tree};

/// Functions in inherent `impl` blocks of one type.
const METHODS_MAX: usize = 60;
/// Fields of one struct.
const FIELDS_MAX: usize = 25;

/// A type above a limit.
struct Large {
    /// As `crate::module::Name`, the crate without `strait-`.
    name: &'static str,
    methods: usize,
    fields: usize,
    /// Why it is one type.
    reason: &'static str,
}

/// Types above a limit, with what they have today: no more, and when it is less, the number here
/// goes down with it.
const LARGE: &[Large] = &[
    Large {
        name: "core::stats::PortStats",
        methods: 60,
        fields: 26,
        reason: "what is counted of a port, one field a counter or a group",
    },
    Large {
        name: "link::hbh::send::Sender",
        methods: 60,
        fields: 26,
        reason: "what a hop's sender knows of a neighbour's window, its repeats and its clocks",
    },
    Large {
        name: "node::config::hf::HfConfig",
        methods: 60,
        fields: 30,
        reason: "the keys of `[port.hf]`, as a file names them",
    },
    Large {
        name: "node::config::kind::PortKeys",
        methods: 60,
        fields: 36,
        reason: "the keys of every kind of port, sorted out when a file is read",
    },
    Large {
        name: "node::gateway::Gateway",
        methods: 63,
        fields: 24,
        reason: "to be cut: forwarding, routes and services still are one machine",
    },
    Large {
        name: "s5066::sis::Sis",
        methods: 93,
        fields: 25,
        reason: "to be cut: the clients of a station and each client's session",
    },
    Large {
        name: "s5066::station::peer::Peer",
        methods: 61,
        fields: 25,
        reason: "a neighbour's machines and what passes between them",
    },
    Large {
        name: "sim::world::World",
        methods: 99,
        fields: 25,
        reason: "to be cut: the simulator's events and what each kind of member does",
    },
    Large {
        name: "tcp::endpoint::Endpoint",
        methods: 155,
        fields: 28,
        reason: "to be cut: both directions of a connection and its beginning and end",
    },
    Large {
        name: "tcp::endpoint::output::Sender",
        methods: 60,
        fields: 27,
        reason: "RFC 9293's send variables with those of recovery",
    },
    Large {
        name: "tcp::profile::Profile",
        methods: 60,
        fields: 34,
        reason: "what TCPs differ by, one field a difference",
    },
    Large {
        name: "traffic::config::keys::TrafficKeys",
        methods: 60,
        fields: 35,
        reason: "the keys of every kind of traffic, sorted out when a file is read",
    },
];

/// A place in a crate: its name without `strait-`, and modules.
type Place = Vec<String>;

/// What the sources say of types, all outside tests.
#[derive(Default)]
struct Census {
    /// By name, the places where a type of that name is, each with its file and fields.
    declared: BTreeMap<String, Vec<(Place, String, usize)>>,
    /// Places of `impl` blocks: the type's name and the functions in it.
    blocks: Vec<(Place, String, usize)>,
    /// Modules for tests only.
    tests: BTreeSet<Place>,
}

/// Checks that no type is larger than a reader can hold in mind.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_types(tree, LARGE)
}

fn check_types(tree: &Tree, large: &[Large]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut census = Census::default();
    for file in tree.rust() {
        let Some(place) = place(&file.path) else {
            continue;
        };
        match syn::parse_file(&file.text) {
            Ok(read) => census.read(&place, &file.path, &read.items),
            Err(error) => findings.push(Finding::new("types", &file.path, 0, error.to_string())),
        }
    }
    let counted = census.counted();
    for (name, (path, methods, fields)) in &counted {
        let exception = large.iter().find(|one| one.name == name);
        let most = exception.map_or((METHODS_MAX, FIELDS_MAX), |one| (one.methods, one.fields));
        for (what, count, most) in [("methods", *methods, most.0), ("fields", *fields, most.1)] {
            if count > most {
                let what = format!("`{name}` has {count} {what}, of at most {most}");
                findings.push(Finding::new("types", path, 0, what));
            }
        }
    }
    for one in large {
        let (path, methods, fields) = counted
            .get(one.name)
            .map_or(("", 0, 0), |(path, methods, fields)| {
                (path, *methods, *fields)
            });
        // A limit that isn't passed needs no exception.
        let least = (methods.max(METHODS_MAX), fields.max(FIELDS_MAX));
        let needless = least == (METHODS_MAX, FIELDS_MAX);
        if needless || least.0 < one.methods || least.1 < one.fields {
            let what = format!(
                "the exception for `{}` ({}) says {} methods and {} fields; it has {methods} and \
                 {fields}",
                one.name, one.reason, one.methods, one.fields
            );
            findings.push(Finding::new("types", path, 0, what));
        }
    }
    findings
}

/// The module that a source file is; `None` for tests and examples.
fn place(path: &str) -> Option<Place> {
    let (name, rest) = match path.strip_prefix("crates/") {
        Some(rest) => rest.split_once("/src/")?,
        None => ("xtask", path.strip_prefix("xtask/src/")?),
    };
    let name = name.strip_prefix("strait-").unwrap_or(name);
    let modules = rest.strip_suffix(".rs")?.split('/');
    let own = modules.filter(|module| !["lib", "main", "mod"].contains(module));
    Some([name].into_iter().chain(own).map(str::to_owned).collect())
}

impl Census {
    fn read(&mut self, place: &Place, path: &str, items: &[Item]) {
        for item in items {
            match item {
                Item::Mod(module) => {
                    let mut inside = place.clone();
                    inside.push(module.ident.to_string());
                    if is_test(&module.attrs) {
                        self.tests.insert(inside);
                    } else if let Some((_, items)) = &module.content {
                        self.read(&inside, path, items);
                    }
                }
                Item::Struct(own) => self.declare(place, path, &own.ident, own.fields.len()),
                Item::Enum(own) => self.declare(place, path, &own.ident, 0),
                Item::Impl(block) if block.trait_.is_none() && !is_test(&block.attrs) => {
                    let Type::Path(of) = &*block.self_ty else {
                        continue;
                    };
                    let functions = block.items.iter().filter(|item| match item {
                        ImplItem::Fn(function) => !is_test(&function.attrs),
                        _ => false,
                    });
                    let count = functions.count();
                    if let Some(last) = of.path.segments.last() {
                        let name = last.ident.to_string();
                        self.blocks.push((place.clone(), name, count));
                    }
                }
                _ => {}
            }
        }
    }

    fn declare(&mut self, place: &Place, path: &str, name: &syn::Ident, fields: usize) {
        let places = self.declared.entry(name.to_string()).or_default();
        places.push((place.clone(), path.to_owned(), fields));
    }

    fn is_for_tests(&self, place: &Place) -> bool {
        (1..=place.len()).any(|length| self.tests.contains(&place[..length]))
    }

    /// By the types' names, their files, methods and fields.
    fn counted(&self) -> BTreeMap<String, (&str, usize, usize)> {
        let mut counted = BTreeMap::new();
        for (name, places) in &self.declared {
            for (place, path, fields) in places.iter().filter(|one| !self.is_for_tests(&one.0)) {
                counted.insert(full(place, name), (path.as_str(), 0, *fields));
            }
        }
        for (place, name, functions) in &self.blocks {
            // A type's blocks stand beside it or below it.
            let places = self.declared.get(name).into_iter().flatten();
            let own = places.map(|(own, ..)| own).filter(|own| own[0] == place[0]);
            let common = |own: &&Place| own.iter().zip(place).take_while(|(a, b)| a == b).count();
            let nearest = own.max_by_key(|own| (common(own), usize::MAX - own.len()));
            let of = nearest.and_then(|own| counted.get_mut(&full(own, name)));
            if let Some(of) = of.filter(|_| !self.is_for_tests(place)) {
                of.1 += functions;
            }
        }
        counted
    }
}

fn full(place: &Place, name: &str) -> String {
    format!("{}::{name}", place.join("::"))
}

/// Whether something is there in tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|one| match &one.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(count: usize) -> String {
        (0..count)
            .map(|index| format!("fn f{index}() {{}}\n"))
            .collect()
    }

    fn told(files: &[(&str, &str)], large: &[Large]) -> Vec<String> {
        let findings = check_types(&Tree::of(files), large);
        findings.iter().map(ToString::to_string).collect()
    }

    fn large(methods: usize, fields: usize) -> [Large; 1] {
        [Large {
            name: "node::port::Port",
            methods,
            fields,
            reason: "a test",
        }]
    }

    const PORT: &str = "crates/strait-node/src/port.rs";
    const QUEUE: &str = "crates/strait-node/src/port/queue.rs";

    #[test]
    fn methods_count_wherever_they_stand() {
        let own = format!(
            "pub struct Port;\nimpl Port {{\n{}}}\n",
            functions(METHODS_MAX)
        );
        assert!(told(&[(PORT, &own)], &[]).is_empty());
        let more = "impl super::Port { const A: u8 = 1; fn one_more() {} }";
        let both = told(&[(PORT, &own), (QUEUE, more)], &[]);
        assert_eq!(
            both,
            [
                "crates/strait-node/src/port.rs: `node::port::Port` has 61 methods, of at most 60 \
              [types]"
            ]
        );
        // A type of the same name in another module or crate, traits and tests don't count.
        for other in [
            "struct Port;\nimpl Port { fn one_more() {} }",
            "impl Clone for Port { fn clone(&self) -> Self { Port } }",
            "#[cfg(test)]\nimpl Port { fn one_more() {} }",
            "impl Port { #[cfg(test)] fn one_more() {} }",
            "#[cfg(test)]\nmod tests { impl Port { fn one_more() {} } }",
        ] {
            assert!(
                told(&[(PORT, &own), (QUEUE, other)], &[]).is_empty(),
                "{other}"
            );
        }
        let tests = format!("#[cfg(test)]\nmod queue;\n{own}");
        assert!(told(&[(PORT, &tests), (QUEUE, more)], &[]).is_empty());
        let elsewhere = ("crates/strait-sim/src/port/queue.rs", more);
        assert!(told(&[(PORT, &own), elsewhere], &[]).is_empty());
    }

    #[test]
    fn fields_count_and_exceptions_only_shrink() {
        let of = |fields: usize| {
            let fields: Vec<String> = (0..fields).map(|index| format!("f{index}: u8")).collect();
            format!("struct Port {{ {} }}", fields.join(", "))
        };
        assert!(told(&[(PORT, &of(FIELDS_MAX))], &[]).is_empty());
        let over = of(FIELDS_MAX + 2);
        assert!(told(&[(PORT, &over)], &[])[0].contains("27 fields, of at most 25"));
        assert!(told(&[(PORT, &over)], &large(60, 27)).is_empty());
        assert!(told(&[(PORT, &over)], &large(60, 26))[0].contains("27 fields, of at most 26"));
        for needless in [large(60, 28), large(61, 27)] {
            assert!(told(&[(PORT, &over)], &needless)[0].contains("it has 0 and 27"));
        }
        assert!(told(&[(PORT, &of(25))], &large(60, 25))[0].contains("exception"));
        assert!(told(&[], &large(60, 27))[0].contains("it has 0 and 0"));
    }

    #[test]
    fn what_is_no_rust_is_told() {
        assert_eq!(told(&[(PORT, "fn (")], &[]).len(), 1);
    }
}
