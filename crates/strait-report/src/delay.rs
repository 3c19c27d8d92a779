//! Where the time went, by class.

use std::fmt::Write;

use strait_core::delay::DelayPart;
use strait_core::stats::ClassStats;

use super::page::escape;
use crate::table::{Cell, Column, Table, significant};

/// A part of the delay in words that say what the packet was doing.
const fn part_title(part: DelayPart) -> &'static str {
    match part {
        DelayPart::Class => "in its class",
        DelayPart::Turn => "for its turn",
        DelayPart::Line => "on the line",
        DelayPart::Repeat => "sent again",
        DelayPart::Order => "for its order",
        DelayPart::Proxy => "in a proxy",
    }
}

/// Where the time went: a row for each class that carried packets, and one for all of them where
/// there are several. Columns: packets; their mean delay; then for every part that took any time
/// its sum over the packets in seconds, and its share of the whole, 0 … 1. The sums add up to the
/// whole exactly, so the shares to 1.
pub fn delay_table(classes: &[ClassStats]) -> Table {
    let parts = parts_of(classes);
    let mut columns = vec![
        Column::new("class", ""),
        Column::new("packets", ""),
        Column::new("mean delay", "s"),
        Column::new("whole", "s"),
    ];
    for part in &parts {
        columns.push(Column::new(part_title(*part), "s"));
        columns.push(Column::new(format!("{}, share", part_title(*part)), ""));
    }
    let mut table = Table::new("delay-parts", columns);
    let active = classes.iter().filter(|class| class.packets > 0);
    active
        .clone()
        .for_each(|class| table.push(row(class, &parts)));
    if table.rows.len() > 1 {
        table.push(row(&together(classes), &parts));
    }
    table
}

/// All classes as one.
fn together(classes: &[ClassStats]) -> ClassStats {
    let mut all = ClassStats {
        name: "all".into(),
        ..ClassStats::default()
    };
    for class in classes {
        all.packets += class.packets;
        all.parts.merge(&class.parts);
    }
    all
}

/// The parts that took any time in any class.
fn parts_of(classes: &[ClassStats]) -> Vec<DelayPart> {
    let took_time = |part: &DelayPart| classes.iter().any(|class| class.parts.part_ns(*part) > 0);
    DelayPart::ALL.into_iter().filter(took_time).collect()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn share(ns: u64, whole_ns: u64) -> f64 {
    if whole_ns == 0 {
        0.0
    } else {
        ns as f64 / whole_ns as f64
    }
}

fn row(class: &ClassStats, parts: &[DelayPart]) -> Vec<Cell> {
    let whole_ns = class.parts.total_ns();
    let mut cells: Vec<Cell> = vec![
        class.name.clone().into(),
        (class.packets as f64).into(),
        (seconds(whole_ns) / class.packets.max(1) as f64).into(),
        seconds(whole_ns).into(),
    ];
    for part in parts {
        let ns = class.parts.part_ns(*part);
        cells.push(seconds(ns).into());
        cells.push(share(ns, whole_ns).into());
    }
    cells
}

/// The same as bars for the page: the mean delay of all packets of each variant, beside each
/// other, then of each class where there are several; cut into its parts, all to one scale.
pub(super) fn delay_bars(variants: &[(String, Vec<ClassStats>)]) -> String {
    let all: Vec<ClassStats> = variants
        .iter()
        .flat_map(|(_, classes)| classes)
        .cloned()
        .collect();
    let mean_s = |class: &ClassStats| seconds(class.parts.total_ns()) / class.packets.max(1) as f64;
    let longest_s = all
        .iter()
        .filter(|class| class.packets > 0)
        .map(mean_s)
        .fold(0.0, f64::max);
    if longest_s <= 0.0 {
        return String::new();
    }
    let mut html = String::from(
        "<div class=\"bars\" role=\"img\" aria-label=\"mean delay by class and part\">",
    );
    let mut bar = |variant: &str, class: &ClassStats| {
        let name = format!("{} · {}", variant, class.name);
        let mean_s = mean_s(class);
        let _ = write!(
            html,
            "<div class=\"bar-name\">{}</div><div class=\"bar\">",
            escape(&name)
        );
        segments(class, mean_s / longest_s, &mut html);
        let _ = write!(
            html,
            "</div><div class=\"bar-value\">{} s</div>",
            significant(mean_s)
        );
    };
    for (variant, classes) in variants {
        let all = together(classes);
        if all.packets > 0 {
            bar(variant, &all);
        }
    }
    for (variant, classes) in variants {
        let active = || classes.iter().filter(|class| class.packets > 0);
        if active().count() > 1 {
            active().for_each(|class| bar(variant, class));
        }
    }
    html.push_str("</div>");
    let keys = parts_of(&all).into_iter().map(|part| {
        format!(
            "<span><i class=\"part-{}\"></i>{}</span>",
            part.name(),
            part_title(part)
        )
    });
    let _ = write!(html, "<p class=\"keys\">{}</p>", keys.collect::<String>());
    html
}

/// The parts of one bar; `scale` is the bar's share of the full width.
fn segments(class: &ClassStats, scale: f64, html: &mut String) {
    let whole_ns = class.parts.total_ns();
    for part in DelayPart::ALL {
        let ns = class.parts.part_ns(part);
        if ns > 0 {
            let width = share(ns, whole_ns) * scale * 100.0;
            let mean_s = seconds(ns) / class.packets.max(1) as f64;
            let _ = write!(
                html,
                "<i class=\"part-{}\" style=\"width:{width:.3}%\" title=\"{}: {} s, {:.1} %\"></i>",
                part.name(),
                part_title(part),
                significant(mean_s),
                share(ns, whole_ns) * 100.0,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use strait_core::delay::DelayParts;

    use super::*;

    fn class(name: &str, packets: u64, class_ms: u64, line_ms: u64) -> ClassStats {
        let mut parts = DelayParts::default();
        parts.add(DelayPart::Class, class_ms * 1_000_000);
        parts.add(DelayPart::Line, line_ms * 1_000_000);
        ClassStats {
            name: name.into(),
            packets,
            parts,
            ..ClassStats::default()
        }
    }

    #[test]
    fn parts_and_shares_add_up_to_the_whole() {
        let table = delay_table(&[class("voice", 10, 100, 300), class("bulk", 10, 9600, 0)]);
        let text = "\
class  packets  mean delay [s]  whole [s]  in its class [s]  in its class, share  on the line [s]  on the line, share
-----  -------  --------------  ---------  ----------------  -------------------  ---------------  ------------------
voice       10            0.04        0.4               0.1                 0.25              0.3                0.75
bulk        10            0.96        9.6               9.6                    1                0                   0
all         20             0.5         10               9.7                 0.97              0.3                0.03
";
        assert_eq!(table.to_text(), text);
    }

    #[test]
    fn classes_without_packets_are_left_out() {
        let one = delay_table(&[class("voice", 1, 5, 0), class("idle", 0, 0, 0)]);
        assert_eq!(one.rows.len(), 1);
        assert_eq!(one.columns.len(), 6);
        let none = delay_table(&[]);
        assert_eq!((none.rows.len(), none.columns.len()), (0, 4));
    }

    #[test]
    fn bars_are_to_one_scale() {
        let slow = ("fifo".to_string(), vec![class("only", 1, 900, 100)]);
        let classes = vec![class("<voice>", 3, 0, 750), class("bulk", 1, 0, 850)];
        let html = delay_bars(&[slow, ("strait".to_string(), classes)]);
        let names: Vec<&str> = html.split("bar-name\">").skip(1).collect();
        let expected = [
            "fifo · all",
            "strait · all",
            "strait · &lt;voice&gt;",
            "strait · bulk",
        ];
        assert_eq!(names.len(), expected.len());
        for (name, expected) in names.iter().zip(expected) {
            assert!(name.starts_with(expected), "{name}");
        }
        // All of `strait`: 1600 over four packets.
        for width in ["90.000%", "10.000%", "40.000%", "25.000%", "85.000%"] {
            let width = format!("width:{width}");
            let width = width.as_str();
            assert!(html.contains(width), "{width}: {html}");
        }
        assert_eq!(
            delay_bars(&[("x".into(), vec![class("idle", 0, 0, 0)])]),
            ""
        );
    }
}
