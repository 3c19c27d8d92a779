//! A picture of all of it, for a screen of any size.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::Span as Text;
use strait_report::{why_text, wrapped_within};
use strait_status::Span;

use crate::app::{App, Look, Over};
use crate::node::Node;
use crate::table::{Cell, Column, Row};
use strait_status::number::{percent, time};

/// Lines that the sentence on top takes at most; `w` shows all of it.
const WHY_LINES: u16 = 3;

const HELP: &str = "\
Tab, Shift-Tab, 1 .. 0    next view, previous view, a view by its number
n, N                      next gateway, previous gateway
w                         all findings, with their remedies
Enter                     packets behind the first row, or behind the findings
/ or F4                   find rows with all words; Esc shows all again
> or F6, <                sort by another column; after the last: the worst first
I                         reverse the order
c or F2                   choose columns
arrows, PgUp, PgDn, Home, End    other rows and columns
p or space                pause and resume
[ ]   + -                 in a recording: 10 s back, 10 s forward; faster, slower
Ctrl-L                    redraw, if the line garbled the picture
q or F10                  the end

wait excludes the time on the line. A number with ! needs attention. Rates and
shares are of the last ten seconds. 9.60k is 9600.

Any key goes back.";

/// Styles, by whether there are colours.
#[derive(Clone, Copy)]
struct Styles {
    bad: Style,
    head: Style,
    strong: Style,
}

impl Styles {
    const fn new(plain: bool) -> Self {
        let strong = Style::new().add_modifier(Modifier::BOLD);
        Self {
            bad: if plain { strong } else { strong.fg(Color::Red) },
            head: Style::new().add_modifier(Modifier::REVERSED),
            strong,
        }
    }
}

/// Draws all of it, and notes how many rows a page has.
pub(crate) fn draw(app: &mut App, buffer: &mut Buffer) {
    let area = buffer.area;
    if area.width < 20 || area.height < 8 {
        put(buffer, (0, 0), area.width, "too small", Style::new());
        return;
    }
    let styles = Styles::new(app.plain);
    let mut y = top(app, buffer, styles);
    tabs(app, buffer, y, styles);
    y += 1;
    let rest = Rect::new(area.x, y, area.width, area.height - y - 1);
    match app.over {
        Over::Help => lines(buffer, rest, HELP),
        Over::Why => {
            let text = |it: &Node| format!("{}\nUntil now:\n{}", why_text(it.why()), it.past());
            lines(buffer, rest, &app.node().map_or_else(String::new, text));
        }
        Over::Columns(at) => columns(app, buffer, rest, at, styles),
        Over::Nothing | Over::Filter => table(app, buffer, rest, styles),
    }
    foot(app, buffer, area.height - 1);
}

fn put(buffer: &mut Buffer, (x, y): (u16, u16), width: u16, text: &str, style: Style) -> u16 {
    let (end, _) = buffer.set_stringn(x, y, text, usize::from(width), style);
    end
}

/// Who it is, why it is slow, and the worst figures; the line below.
fn top(app: &App, buffer: &mut Buffer, styles: Styles) -> u16 {
    let width = buffer.area.width;
    let Some(node) = app.node() else {
        put(buffer, (0, 0), width, "nothing received yet", styles.strong);
        return 1;
    };
    let span = node.span();
    let up = span.as_ref().map_or(0.0, |it| it.last.uptime_s);
    let others = match app.nodes.len() {
        0 | 1 => String::new(),
        all => format!(" ({} of {all}, n: next)", app.shown + 1),
    };
    let place = app.tape.as_ref().map(|it| format!("   {}", it.place()));
    let name = Cell::words(node.name()).text;
    let mut text = format!(
        "{name}{others}   up {}{}",
        time(up),
        place.unwrap_or_default()
    );
    if app.paused {
        text += "   PAUSED";
    }
    put(buffer, (0, 0), width, &text, styles.strong);
    let (said, bad) = match (&node.gone, &span) {
        (Some(gone), _) => (format!("SILENT: {gone}"), true),
        (None, None) => ("waiting for the first answer".into(), false),
        (None, Some(_)) => (node.why().line(), !node.why().is_well()),
    };
    let style = if bad { styles.bad } else { Style::new() };
    let said = wrapped_within(&Cell::words(said).text, usize::from(width));
    let said: Vec<&str> = said.lines().map(str::trim).collect();
    let lines = WHY_LINES.min(buffer.area.height / 6).max(1);
    for (n, line) in (0..lines).zip(&said) {
        put(buffer, (0, 1 + n), width, line, style);
    }
    if said.len() > usize::from(lines) {
        put(buffer, (width - 7, lines), 7, " ... w)", style);
    }
    if let Some(span) = &span {
        well(span, buffer, 1 + lines, styles);
    }
    2 + lines
}

/// The figures that tell whether it is well, of each the worst.
fn well(span: &Span<'_>, buffer: &mut Buffer, y: u16, styles: Styles) {
    let down: Vec<&str> = span
        .links
        .iter()
        .filter(|it| !it.port.up)
        .map(|it| it.port.name.as_str())
        .collect();
    let links = match &down[..] {
        [] => format!("links {} up", span.links.len()),
        down => format!("{} DOWN!", down.join(", ")),
    };
    let used = span
        .links
        .iter()
        .max_by(|one, other| one.busy.total_cmp(&other.busy));
    let used = used.map(|it| format!("{} used {}", it.port.name, percent(it.busy)));
    let classes = span.classes();
    let stays = classes
        .iter()
        .filter_map(|it| Some((it.stay_s()?, it.class.name.as_str())));
    let stay = stays.max_by(|one, other| one.0.total_cmp(&other.0));
    let stay = stay.map(|(s, name)| format!("longest stay {} ({name})", time(s)));
    let sum = |of: fn(&strait_status::ClassSpan<'_>) -> f64| classes.iter().map(of).sum::<f64>();
    let lost = sum(|it| it.dropped) / (sum(|it| it.packets) + sum(|it| it.dropped)).max(1.0);
    let lost = format!(
        "dropped {}{}",
        percent(lost),
        if lost > 0.01 { "!" } else { "" }
    );
    let standing = |word: &str| {
        let calls = span
            .last
            .flows
            .iter()
            .filter_map(|it| it.standing.as_deref());
        calls.filter(|it| *it == word).count()
    };
    let calls = match (
        standing("admitted") + standing("measured"),
        standing("refused"),
    ) {
        (0, 0) => None,
        (carried, 0) => Some(format!("calls {carried}")),
        (carried, refused) => Some(format!("calls {carried}, {refused} refused!")),
    };
    let all = [Some(links), used, stay, Some(lost), calls];
    let all: Vec<String> = all.into_iter().flatten().collect();
    let bad = all.iter().any(|it| it.contains('!'));
    let style = if bad { styles.bad } else { Style::new() };
    put(
        buffer,
        (0, y),
        buffer.area.width,
        &Cell::words(all.join(" | ")).text,
        style,
    );
}

fn tabs(app: &App, buffer: &mut Buffer, y: u16, styles: Styles) {
    let width = buffer.area.width;
    let views = app.views();
    let all: usize = views.iter().map(|it| it.title().len() + 3).sum();
    let short = all > usize::from(width);
    let mut x = 0;
    for (n, view) in views.iter().enumerate() {
        let title = if short {
            &view.title()[..view.title().len().min(5)]
        } else {
            view.title()
        };
        let is_shown = *view == app.view;
        let style = if is_shown { styles.head } else { Style::new() };
        // Without attributes brackets tell.
        let text = match is_shown {
            true => format!("[{title}]"),
            false if n < 10 => format!("{}{title}", (n + 1) % 10),
            false => title.to_owned(),
        };
        x = put(buffer, (x, y), width.saturating_sub(x), &text, style) + 1;
        if x >= width {
            break;
        }
    }
}

/// The columns for which there is room, each with its width. Words share what is left.
fn fitting(app: &App, look: &Look, width: u16) -> Vec<(usize, u16)> {
    let all = app.all_columns();
    let chosen = app.columns();
    let later = chosen.iter().skip(1 + look.across);
    let mut fitting: Vec<(usize, u16)> = Vec::new();
    let mut taken = 0;
    for n in chosen.first().into_iter().chain(later) {
        let own = all[*n].width + u16::from(!fitting.is_empty());
        if taken + own > width && !fitting.is_empty() {
            break;
        }
        taken += own;
        fitting.push((*n, all[*n].width));
    }
    let mut room = width.saturating_sub(taken);
    let growing: Vec<usize> = (0..fitting.len())
        .filter(|at| all[fitting[*at].0].words)
        .collect();
    for (done, at) in growing.iter().enumerate() {
        let share = room / (growing.len() - done) as u16;
        fitting[*at].1 += share;
        room -= share;
    }
    fitting
}

fn table(app: &mut App, buffer: &mut Buffer, area: Rect, styles: Styles) {
    let (rows, all) = app.rows();
    let seen = usize::from(area.height).saturating_sub(1);
    app.page = seen;
    let mut look = app.look();
    look.down = look.down.min(rows.len().saturating_sub(seen));
    if let Some(own) = app.looks.get_mut(&app.view) {
        own.down = look.down;
    }
    let fitting = fitting(app, &look, area.width);
    heads(app.all_columns(), &look, &fitting, buffer, area, styles);
    for (row, y) in rows.iter().skip(look.down).take(seen).zip(area.y + 1..) {
        line(row, &fitting, (app.all_columns(), y), buffer, styles);
    }
    if rows.is_empty() {
        let why = if all > 0 {
            "no row has these words (Esc shows all)"
        } else {
            "nothing"
        };
        put(buffer, (0, area.y + 1), area.width, why, Style::new());
    } else if rows.len() > seen || rows.len() < all {
        let last = (look.down + seen).min(rows.len());
        let text = format!(" {}-{last} of {} ", look.down + 1, rows.len());
        let x = area.width.saturating_sub(text.len() as u16);
        let y = buffer.area.height - 1;
        put(buffer, (x, y), area.width - x, &text, Style::new());
    }
}

fn heads(
    columns: &[Column],
    look: &Look,
    fitting: &[(usize, u16)],
    buffer: &mut Buffer,
    area: Rect,
    styles: Styles,
) {
    put(
        buffer,
        (0, area.y),
        area.width,
        &" ".repeat(usize::from(area.width)),
        styles.head,
    );
    let mut x = 0;
    for (n, width) in fitting {
        let column = &columns[*n];
        let mark = match (look.sort.column == Some(*n), look.sort.turned) {
            (false, _) => "",
            (true, false) => "v",
            (true, true) => "^",
        };
        let head = format!("{}{mark}", column.head);
        aligned(
            buffer,
            (x, area.y),
            *width,
            (&head, column.words),
            styles.head,
        );
        x += width + 1;
    }
}

fn line(
    row: &Row,
    fitting: &[(usize, u16)],
    (columns, y): (&[Column], u16),
    buffer: &mut Buffer,
    styles: Styles,
) {
    let mut x = 0;
    for (n, width) in fitting {
        let cell = &row.cells[*n];
        let style = if cell.bad { styles.bad } else { Style::new() };
        let words = columns[*n].words;
        // Where it is seen even if the rest is cut.
        let text = match (cell.bad, words) {
            (false, _) => cell.text.clone(),
            (true, true) => format!("!{}", cell.text),
            (true, false) => format!("{}!", cell.text),
        };
        aligned(buffer, (x, y), *width, (&text, words), style);
        x += width + 1;
    }
}

/// Words from the left, figures to the right; what is too long ends in `~`.
fn aligned(
    buffer: &mut Buffer,
    (x, y): (u16, u16),
    width: u16,
    (text, from_left): (&str, bool),
    style: Style,
) {
    let Some(room) = buffer.area.width.checked_sub(x).filter(|it| *it > 0) else {
        return;
    };
    let width = width.min(room);
    let own = Text::raw(text).width();
    if own > usize::from(width) {
        put(buffer, (x, y), width.saturating_sub(1), text, style);
        put(buffer, (x + width - 1, y), 1, "~", style);
        return;
    }
    let free = if from_left { 0 } else { width - own as u16 };
    put(buffer, (x + free, y), width - free, text, style);
}

fn lines(buffer: &mut Buffer, area: Rect, text: &str) {
    let lines = text.lines().flat_map(|line| {
        let wrapped = if line.chars().count() > usize::from(area.width) {
            wrapped_within(line, usize::from(area.width))
        } else {
            line.to_owned() + "\n"
        };
        wrapped.lines().map(String::from).collect::<Vec<_>>()
    });
    for (line, y) in lines.zip(area.y..area.bottom()) {
        put(
            buffer,
            (0, y),
            area.width,
            &Cell::words(line).text,
            Style::new(),
        );
    }
}

fn columns(app: &App, buffer: &mut Buffer, area: Rect, at: usize, styles: Styles) {
    let hidden = app.look().hidden;
    let from = (at + 1).saturating_sub(usize::from(area.height));
    let all = app.all_columns().iter().enumerate().skip(from);
    for ((n, column), y) in all.zip(area.y..area.bottom()) {
        let mark = if hidden.contains(&n) { ' ' } else { 'x' };
        let point = if n == at { '>' } else { ' ' };
        let text = format!("{point}[{mark}] {:<12} {}", column.head, column.help);
        let style = if n == at { styles.head } else { Style::new() };
        put(buffer, (0, y), area.width, &text, style);
    }
}

fn foot(app: &App, buffer: &mut Buffer, y: u16) {
    let filter;
    let text = match app.over {
        Over::Filter => {
            filter = format!("find: {}_   (Enter keeps it, Esc shows all)", app.filter);
            filter.as_str()
        }
        Over::Columns(_) => "up, down; space shows or hides; Esc goes back",
        Over::Help | Over::Why => "",
        Over::Nothing if !app.filter.is_empty() => {
            filter = format!("find: {}   (Esc shows all)", app.filter);
            filter.as_str()
        }
        Over::Nothing => "F1 help  F2 columns  F4 find  F6 sort  p pause  w why  F10 quit",
    };
    // What stands at the right already stays.
    let room = (0..buffer.area.width)
        .take_while(|x| buffer[(*x, y)].symbol() == " ")
        .count();
    put(
        buffer,
        (0, y),
        room as u16,
        &Cell::words(text).text,
        Style::new(),
    );
}

/// The same as text: what a terminal of this size would show.
pub fn picture(app: &mut App, width: u16, height: u16) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw(app, &mut buffer);
    let mut text = String::new();
    for y in 0..height {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        text += line.trim_end();
        text += "\n";
    }
    text.trim_end().to_owned() + "\n"
}
