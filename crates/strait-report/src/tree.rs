//! A tree as a picture: roots to the left, one row a branch, a bar for its share.

use std::fmt::Write;

/// A node of the tree. Parents come before their children.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// Its name.
    pub name: String,
    /// What else is to be said of it, in one line.
    pub words: String,
    /// Place of its parent; none for a root.
    pub parent: Option<usize>,
    /// Its share of the whole, 0 … 1 (more is drawn as all), if it has one.
    pub share: Option<f64>,
}

/// Pixels of a row.
const ROW: usize = 34;
/// Pixels of a step to the right.
const STEP: usize = 36;
/// Pixels of a bar for a share of all.
const BAR: usize = 160;
/// Pixels of a letter of the names, about.
const LETTER: usize = 8;

/// The picture as SVG, in the colours of whatever page it stands in.
pub fn picture(title: &str, branches: &[Branch]) -> String {
    let order = rows(branches);
    let width_of = |(index, depth): &(usize, usize)| {
        let branch = &branches[*index];
        let letters = branch.name.chars().count() + branch.words.chars().count() + 4;
        20 + depth * STEP + letters * LETTER
    };
    let text_width = order.iter().map(width_of).max().unwrap_or(200);
    let (width, height) = (text_width + BAR + 40, 50 + order.len() * ROW);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <title>{0}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"20\" y=\"28\" font-size=\"17\">{0}</text>\n",
        escaped(title)
    );
    for (row, (index, depth)) in order.iter().enumerate() {
        let branch = &branches[*index];
        let (x, y) = (20 + depth * STEP, 66 + row * ROW);
        if let Some(parent) = branch.parent {
            let above = order.iter().position(|(other, _)| *other == parent);
            let parent_y = 66 + above.unwrap_or(row) * ROW;
            let elbow = x - STEP / 2;
            let _ = writeln!(
                svg,
                "<path d=\"M{elbow} {} V{} H{}\" fill=\"none\" stroke=\"#999\"/>",
                parent_y + 6,
                y - 5,
                x - 4
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\"><tspan font-weight=\"bold\">{}</tspan>\
             <tspan dx=\"12\" fill=\"#555\">{}</tspan></text>",
            escaped(&branch.name),
            escaped(&branch.words)
        );
        if let Some(share) = branch.share {
            let left = text_width + 10;
            let filled = (share.clamp(0.0, 1.0) * BAR as f64).round();
            let _ = writeln!(
                svg,
                "<rect x=\"{left}\" y=\"{0}\" width=\"{BAR}\" height=\"14\" fill=\"#eee\"/>\
                 <rect x=\"{left}\" y=\"{0}\" width=\"{filled}\" height=\"14\" fill=\"#3b74b9\"/>\
                 <text x=\"{1}\" y=\"{2}\" font-size=\"11\">{3:.1} %</text>",
                y - 12,
                left + 4,
                y - 1,
                share * 100.0
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The order of drawing: each branch right above what grows from it; and its depth.
fn rows(branches: &[Branch]) -> Vec<(usize, usize)> {
    let children = |of: Option<usize>| {
        let all = branches.iter().enumerate();
        let own = all.filter(move |(index, branch)| branch.parent == of && Some(*index) != of);
        own.map(|(index, _)| index).collect::<Vec<_>>()
    };
    let mut order = Vec::with_capacity(branches.len());
    let roots = children(None).into_iter().rev().map(|index| (index, 0));
    let mut open: Vec<(usize, usize)> = roots.collect();
    while let Some((index, depth)) = open.pop() {
        order.push((index, depth));
        let below = children(Some(index)).into_iter().rev();
        open.extend(below.map(|child| (child, depth + 1)));
    }
    order
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_branch_is_drawn_below_its_parent() {
        let branch = |name: &str, parent, share| Branch {
            name: name.into(),
            words: "rate <1 Mbit/s>".into(),
            parent,
            share,
        };
        let branches = [
            branch("root", None, None),
            branch("a & b", Some(0), Some(0.25)),
            branch("c", Some(0), Some(7.0)),
            branch("d", Some(1), None),
        ];
        let order = rows(&branches);
        assert_eq!(order, [(0, 0), (1, 1), (3, 2), (2, 1)]);
        let svg = picture("a policy", &branches);
        assert!(svg.contains("a &amp; b") && svg.contains("&lt;1 Mbit/s>"));
        assert!(svg.contains("25.0 %") && svg.contains("width=\"160\" height=\"14\" fill=\"#3b"));
        assert_eq!(svg.matches("<path").count(), 3);
    }
}
