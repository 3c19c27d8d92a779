//! A snapshot in the Prometheus text format (OpenMetrics 1.0).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::describe::{Counter, Described, Kind, Number, Value};
use crate::{Link, Snapshot, Urgent};

/// Labels of a sample.
type Labels<'a> = Vec<(&'a str, String)>;

/// All that `snapshot` counts. Flows are left out: who talks to whom is for the operator alone.
pub fn metrics(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    family(&mut text, &[(Vec::new(), &snapshot.packets)]);
    let kept = snapshot.local.iter().map(|(what, kind, volume)| {
        let labels = Vec::from([("what", what.into()), ("kind", kind.into())]);
        (labels, volume)
    });
    family(&mut text, &kept.collect::<Vec<_>>());
    family(&mut text, &[(Vec::new(), &snapshot.local)]);
    family(&mut text, &[(Vec::new(), &snapshot.host)]);
    let classes = snapshot.classes.iter();
    let classes = classes.map(|class| (Vec::from([("class", class.name.clone())]), class));
    family(&mut text, &classes.collect::<Vec<_>>());
    ports(snapshot, &mut text);
    let echo: Vec<_> = snapshot
        .echo
        .iter()
        .map(|echo| (Vec::new(), echo))
        .collect();
    family(&mut text, &echo);
    let proxy = snapshot.proxy.iter();
    family(
        &mut text,
        &proxy
            .clone()
            .map(|proxy| (Vec::new(), proxy))
            .collect::<Vec<_>>(),
    );
    let dns = snapshot.dns.iter().map(|dns| (Vec::new(), dns));
    family(&mut text, &dns.collect::<Vec<_>>());
    let mail = snapshot.mail.iter().map(|mail| (Vec::new(), mail));
    family(&mut text, &mail.collect::<Vec<_>>());
    let olsr = snapshot.olsr.iter().map(|olsr| (Vec::new(), olsr));
    family(&mut text, &olsr.collect::<Vec<_>>());
    let streams = echo.iter().map(|(_, echo)| ("echo", &echo.streams));
    let streams = streams.chain(proxy.map(|proxy| ("proxy", &proxy.streams)));
    let streams = streams.map(|(owner, it)| (Vec::from([("owner", owner.into())]), it));
    family(&mut text, &streams.collect::<Vec<_>>());
    // A name that hasn't come is an address, which is for nobody but the operator.
    let far = snapshot.far.iter().filter(|far| far.name != far.address);
    let far = far.map(|far| (Vec::from([("far", far.name.clone())]), far));
    family(&mut text, &far.collect::<Vec<_>>());
    let led = snapshot.led.iter().map(|led| (Vec::new(), led));
    family(&mut text, &led.collect::<Vec<_>>());
    let taps = snapshot.taps.iter();
    let taps = taps.map(|tap| (Vec::from([("tap", tap.name.clone())]), tap));
    family(&mut text, &taps.collect::<Vec<_>>());
    text + "# EOF\n"
}

fn ports(snapshot: &Snapshot, text: &mut String) {
    let ports = snapshot.ports.iter();
    let ports = ports.map(|port| (Vec::from([("port", port.name.clone())]), port));
    let ports: Vec<_> = ports.collect();
    family(text, &ports);
    let of = |labels: &Labels<'static>| labels.clone();
    let neighbours = ports.iter().flat_map(|(labels, port)| {
        let each = port.neighbours.iter();
        each.map(|it| {
            (
                [of(labels), Vec::from([("neighbour", it.name.clone())])].concat(),
                it,
            )
        })
    });
    family(text, &neighbours.collect::<Vec<_>>());
    let flows = ports.iter().map(|(labels, port)| (of(labels), &port.flows));
    family(text, &flows.collect::<Vec<_>>());
    // Series begin with zero, not with the first urgent frame.
    let none = Urgent::default();
    let urgent = ports.iter();
    let urgent = urgent.map(|(labels, port)| (of(labels), port.urgent.as_ref().unwrap_or(&none)));
    family(text, &urgent.collect::<Vec<_>>());
    let repairs = ports.iter();
    let repairs = repairs.filter_map(|(labels, port)| Some((of(labels), port.repairs.as_ref()?)));
    family(text, &repairs.collect::<Vec<_>>());
    let hops = ports.iter();
    let hops = hops.filter_map(|(labels, port)| Some((of(labels), port.hop.as_ref()?)));
    family(text, &hops.collect::<Vec<_>>());
    let stations = ports.iter();
    let stations = stations.filter_map(|(labels, port)| Some((of(labels), port.hf.as_ref()?)));
    let (own, all): (Vec<_>, Vec<_>) = {
        let all: Vec<_> = stations.collect();
        let own = all
            .iter()
            .filter(|(_, station)| !station.neighbours.is_empty());
        (own.cloned().collect(), all)
    };
    family(text, &own);
    let clients = own.iter().map(|(labels, it)| (of(labels), &it.clients));
    family(text, &clients.collect::<Vec<_>>());
    let links = own.iter().flat_map(|(labels, station)| {
        let with =
            |link: &Link| [of(labels), Vec::from([("neighbour", link.name.clone())])].concat();
        station
            .neighbours
            .iter()
            .map(move |link| (with(link), link))
    });
    let links: Vec<_> = links.collect();
    family(text, &links);
    let rates = links.iter();
    let rates = rates.filter_map(|(labels, link)| Some((of(labels), link.rate.as_ref()?)));
    family(text, &rates.collect::<Vec<_>>());
    let accesses = all.iter().flat_map(|(labels, station)| {
        let each = station.accesses.iter();
        each.map(|access| {
            (
                [of(labels), Vec::from([("sap", access.label())])].concat(),
                access,
            )
        })
    });
    family(text, &accesses.collect::<Vec<_>>());
}

/// Each metric of `T`, with a sample for each row; nothing without a row.
fn family<T: Described>(text: &mut String, rows: &[(Labels<'static>, &T)]) {
    let mut last = "";
    for counter in T::COUNTERS {
        let metric = counter.shape.metric;
        if metric.is_empty() || rows.is_empty() {
            continue;
        }
        if metric != last {
            head(text, counter);
        }
        last = metric;
        for (labels, row) in rows {
            samples(text, counter, labels, row);
        }
    }
}

/// The name of a metric, with its unit if that is a base unit.
fn name<T>(counter: &Counter<T>) -> String {
    let unit = if counter.shape.unit == "s" {
        "_seconds"
    } else {
        ""
    };
    ["strait_", counter.shape.metric, unit].concat()
}

fn head<T>(text: &mut String, counter: &Counter<T>) {
    let (name, help) = (name(counter), counter.help.trim());
    let kind = match counter.shape.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    };
    // Writing into a string doesn't fail.
    let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
    if counter.shape.unit == "s" {
        let _ = writeln!(text, "# UNIT {name} seconds");
    }
}

fn samples<T>(text: &mut String, counter: &Counter<T>, labels: &Labels<'_>, row: &T) {
    let mut labels = labels.clone();
    labels.extend(counter.shape.of.map(|(label, value)| (label, value.into())));
    let label = counter.shape.by.map_or("kind", |(label, _)| label);
    match (counter.value)(row) {
        Value::None | Value::Text(_) => {}
        Value::Number(number) => sample(text, counter, &labels, number),
        Value::By(found) => {
            let always = counter.shape.by.map_or(&[][..], |(_, always)| always);
            let missing = always
                .iter()
                .filter(|kind| !found.iter().any(|(it, _)| it == *kind));
            let missing = missing.map(|kind| (*kind, Number::Count(0)));
            for (kind, number) in missing.chain(found.iter().copied()) {
                let labels = [&labels[..], &[(label, kind.into())]].concat();
                sample(text, counter, &labels, number);
            }
        }
    }
}

fn sample<T>(text: &mut String, counter: &Counter<T>, labels: &Labels<'_>, number: Number) {
    *text += &name(counter);
    if counter.shape.kind == Kind::Counter {
        *text += "_total";
    }
    for (nth, (label, value)) in labels.iter().enumerate() {
        *text += if nth == 0 { "{" } else { "," };
        *text += label;
        *text += "=\"";
        for letter in value.chars() {
            match letter {
                '\n' => *text += "\\n",
                '"' | '\\' => text.extend(['\\', letter]),
                _ => text.push(letter),
            }
        }
        text.push('"');
    }
    if !labels.is_empty() {
        text.push('}');
    }
    let scale = counter.shape.scale;
    let _ = match number {
        Number::Count(count) => writeln!(text, " {count}"),
        Number::Real(real) if scale > 1.0 => writeln!(text, " {}", (real * scale) as u64),
        Number::Real(real) => writeln!(text, " {real:?}"),
    };
}
