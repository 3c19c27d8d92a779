//! What is looked at, and what keys change of it. It knows no terminal and no clock.

use std::collections::BTreeMap;
use std::time::Duration;

use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use strait_status::Snapshot;

use crate::node::{Moment, Node, Tape};
use crate::table::{Column, Row, Sort};
use crate::views::View;

/// How it begins.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The title of a view, or how it begins.
    pub view: String,
    /// Words that rows have.
    pub filter: String,
    /// Without colours.
    pub plain: bool,
}

/// What came of a gateway: its number and its snapshot, or why it is silent.
pub type Heard = (usize, Result<Snapshot, String>);

/// What lies over the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Over {
    #[default]
    Nothing,
    /// A filter is written.
    Filter,
    Help,
    /// All that is wrong.
    Why,
    /// Columns are chosen; this one is pointed at.
    Columns(usize),
}

/// How a view is looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    pub(crate) sort: Sort,
    /// Columns that aren't shown.
    pub(crate) hidden: Vec<usize>,
    /// The first row that is seen.
    pub(crate) down: usize,
    /// Columns, behind the first, that are left out at the left.
    pub(crate) across: usize,
}

/// What a key leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing changed.
    Stay,
    /// It is to be drawn.
    Draw,
    /// All of it is to be drawn, whatever stood there.
    Redraw,
    /// The shell comes back for a while.
    Suspend,
    /// The end.
    Quit,
}

impl Then {
    /// Of a key that means the same everywhere, such as those of a shell; `None` of others.
    pub(crate) const fn of_key(key: KeyEvent) -> Option<Self> {
        if matches!(key.kind, KeyEventKind::Release) {
            return Some(Self::Stay);
        }
        if !key.modifiers.contains(KeyModifiers::CONTROL) {
            return None;
        }
        Some(match key.code {
            KeyCode::Char('c') => Self::Quit,
            KeyCode::Char('l') => Self::Redraw,
            KeyCode::Char('z') => Self::Suspend,
            _ => Self::Stay,
        })
    }

    /// Of news.
    pub(crate) const fn of(news: bool) -> Self {
        if news { Self::Draw } else { Self::Stay }
    }

    /// This, or what comes behind it if this is nothing. The end is the end.
    pub(crate) const fn or(self, next: Self) -> Self {
        match (self, next) {
            (Self::Stay, next) | (_, next @ Self::Quit) => next,
            (this, _) => this,
        }
    }
}

/// Some gateways, and how they are looked at.
#[derive(Debug)]
pub struct App {
    pub(crate) nodes: Vec<Node>,
    pub(crate) shown: usize,
    pub(crate) view: View,
    pub(crate) looks: BTreeMap<View, Look>,
    pub(crate) filter: String,
    /// The view from which a key led to the packets behind a row.
    from: Option<View>,
    pub(crate) over: Over,
    pub(crate) paused: bool,
    pub(crate) tape: Option<Tape>,
    pub(crate) plain: bool,
    /// Rows that were seen last: what a page is.
    pub(crate) page: usize,
}

/// Letters of a filter.
const FILTER_MAX: usize = 60;
/// Seconds of a recording that a key skips.
const SKIP_S: f64 = 10.0;
/// How fast a recording is played at most.
const SPEED_MAX: f64 = 10_000.0;

impl App {
    /// Of gateways that are asked, by what they are called before they answer.
    ///
    /// # Errors
    /// There is no such view.
    pub fn live(names: Vec<String>, options: &Options) -> Result<Self, String> {
        let nodes = names.into_iter().map(Node::new).collect();
        Self::new(nodes, None, options)
    }

    /// Of a recording that is played, the earliest moment first.
    ///
    /// # Errors
    /// There is no such view.
    pub fn played(moments: Vec<Moment>, speed: f64, options: &Options) -> Result<Self, String> {
        let mut app = Self::new(Vec::new(), Some(Tape::new(moments, speed)), options)?;
        app.pass(Duration::ZERO);
        Ok(app)
    }

    fn new(nodes: Vec<Node>, tape: Option<Tape>, options: &Options) -> Result<Self, String> {
        let wanted = options.view.to_lowercase();
        let title = |it: &View| it.title().to_lowercase();
        let view = View::ALL
            .into_iter()
            .find(|it| title(it).starts_with(&wanted));
        let view = view.ok_or_else(|| {
            let all: Vec<String> = View::ALL.iter().map(title).collect();
            format!("no view `{}` (there are {})", options.view, all.join(", "))
        })?;
        Ok(Self {
            nodes,
            shown: 0,
            view,
            looks: BTreeMap::new(),
            filter: options.filter.chars().take(FILTER_MAX).collect(),
            from: None,
            over: Over::Nothing,
            paused: false,
            tape,
            plain: options.plain,
            page: 1,
        })
    }

    /// Takes what a gateway says; whether that is to be seen. One that is paused doesn't listen.
    pub fn hear(&mut self, (n, heard): Heard) -> bool {
        let Some(node) = self.nodes.get_mut(n).filter(|_| !self.paused) else {
            return false;
        };
        match heard {
            Ok(snapshot) => node.hear(snapshot),
            Err(why) => node.gone = Some(why),
        }
        n == self.shown
    }

    /// So much time went by here; whether something is to be seen of it.
    pub fn pass(&mut self, passed: Duration) -> bool {
        match &mut self.tape {
            Some(tape) if !self.paused => tape.play(passed, &mut self.nodes),
            _ => false,
        }
    }

    /// Goes to a moment of a recording.
    pub fn seek(&mut self, at_s: f64) {
        if let Some(tape) = &mut self.tape {
            tape.seek(at_s, &mut self.nodes);
        }
    }

    pub(crate) fn node(&self) -> Option<&Node> {
        self.nodes.get(self.shown)
    }

    /// The views that the node has something for.
    pub(crate) fn views(&self) -> Vec<View> {
        let span = self.node().and_then(Node::span);
        let has = |it: &View| *it == View::default() || span.as_ref().is_some_and(|s| it.is_of(s));
        View::ALL.into_iter().filter(has).collect()
    }

    pub(crate) fn look(&self) -> Look {
        self.looks.get(&self.view).cloned().unwrap_or_default()
    }

    /// The columns that are chosen, by their numbers.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let look = self.look();
        let all = 0..self.view.columns().len();
        all.filter(|n| !look.hidden.contains(n)).collect()
    }

    /// The rows that the filter lets through, in their order, and how many there are in all.
    pub(crate) fn rows(&self) -> (Vec<Row>, usize) {
        let span = self.node().and_then(Node::span);
        let mut rows = span.map_or_else(Vec::new, |span| self.view.rows(&span));
        let all = rows.len();
        let filter = self.filter.to_lowercase();
        let words: Vec<String> = filter.split_whitespace().map(String::from).collect();
        if !words.is_empty() {
            rows.retain(|row| row.has(&words));
        }
        self.look().sort.apply(&mut rows, self.view.columns());
        (rows, all)
    }

    fn change(&mut self, of: impl FnOnce(&mut Look)) -> Then {
        of(self.looks.entry(self.view).or_default());
        Then::Draw
    }

    pub(crate) fn press(&mut self, key: KeyEvent) -> Then {
        if let Some(then) = Then::of_key(key) {
            return then;
        }
        match self.over {
            Over::Filter => self.write(key.code),
            Over::Columns(at) => self.choose(key.code, at),
            Over::Help | Over::Why => {
                let why = self.over == Over::Why;
                self.over = Over::Nothing;
                match key.code {
                    KeyCode::Enter if why => {
                        let about = self.node().and_then(|it| it.why().about());
                        if let Some(about) = about.map(str::to_owned) {
                            self.show_packets(about);
                        }
                        Then::Draw
                    }
                    KeyCode::Char('q') | KeyCode::F(10) => Then::Quit,
                    _ => Then::Draw,
                }
            }
            Over::Nothing => self.command(key.code),
        }
    }

    fn command(&mut self, code: KeyCode) -> Then {
        match code {
            KeyCode::Char('q') | KeyCode::F(10) => return Then::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.over = Over::Help,
            KeyCode::Char('w') => self.over = Over::Why,
            KeyCode::Char('c') | KeyCode::F(2) => self.over = Over::Columns(0),
            KeyCode::Char('/' | '\\') | KeyCode::F(3 | 4) => self.over = Over::Filter,
            KeyCode::Char('p' | 'Z' | ' ') => self.paused = !self.paused,
            KeyCode::Char('n') => self.turn(1),
            KeyCode::Char('N') => self.turn(self.nodes.len().saturating_sub(1)),
            KeyCode::Esc => {
                self.filter.clear();
                self.view = self.from.take().unwrap_or(self.view);
            }
            KeyCode::Enter => self.behind(),
            KeyCode::Tab => self.go(1),
            KeyCode::BackTab => self.go(self.views().len().saturating_sub(1)),
            KeyCode::Char(digit @ '0'..='9') => {
                self.leave();
                let place = digit.to_digit(10).map_or(0, |it| (it as usize + 9) % 10);
                self.view = self.views().get(place).copied().unwrap_or(self.view);
            }
            KeyCode::Char('[') => self.skip(-SKIP_S),
            KeyCode::Char(']') => self.skip(SKIP_S),
            KeyCode::Char('+') => self.speed(2.0),
            KeyCode::Char('-') => self.speed(0.5),
            _ => return self.order(code),
        }
        Then::Draw
    }

    /// How rows are sorted, and which are seen.
    fn order(&mut self, code: KeyCode) -> Then {
        let page = self.page.max(1);
        let columns = self.columns();
        match code {
            KeyCode::Char('>' | '.') | KeyCode::F(6) => {
                self.change(|it| it.sort.step(&columns, true))
            }
            KeyCode::Char('<' | ',') => self.change(|it| it.sort.step(&columns, false)),
            KeyCode::Char('I') => self.change(|it| it.sort.turned = !it.sort.turned),
            KeyCode::Up | KeyCode::Char('k') => {
                self.change(|it| it.down = it.down.saturating_sub(1))
            }
            KeyCode::Down | KeyCode::Char('j') => self.change(|it| it.down += 1),
            KeyCode::PageUp => self.change(|it| it.down = it.down.saturating_sub(page)),
            KeyCode::PageDown => self.change(|it| it.down += page),
            KeyCode::Home | KeyCode::Char('g') => self.change(|it| it.down = 0),
            KeyCode::End | KeyCode::Char('G') => self.change(|it| it.down = usize::MAX / 2),
            KeyCode::Left => self.change(|it| it.across = it.across.saturating_sub(1)),
            KeyCode::Right => {
                let most = columns.len().saturating_sub(2);
                self.change(|it| it.across = (it.across + 1).min(most))
            }
            _ => Then::Stay,
        }
    }

    fn write(&mut self, code: KeyCode) -> Then {
        match code {
            KeyCode::Enter | KeyCode::F(3 | 4) => self.over = Over::Nothing,
            KeyCode::Esc => {
                self.filter.clear();
                self.over = Over::Nothing;
            }
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Char(letter) if self.filter.chars().count() < FILTER_MAX => {
                self.filter.push(letter);
            }
            _ => return Then::Stay,
        }
        Then::Draw
    }

    fn choose(&mut self, code: KeyCode, at: usize) -> Then {
        let all = self.view.columns().len();
        let at = match code {
            KeyCode::Up | KeyCode::Char('k') => (at + all - 1) % all,
            KeyCode::Down | KeyCode::Char('j') => (at + 1) % all,
            KeyCode::Char(' ') | KeyCode::Enter => {
                self.change(|it| match it.hidden.iter().position(|n| *n == at) {
                    Some(place) => _ = it.hidden.swap_remove(place),
                    // One column stays.
                    None if it.hidden.len() + 1 < all => it.hidden.push(at),
                    None => {}
                });
                let sort = self.look().sort.column;
                if sort.is_some_and(|it| !self.columns().contains(&it)) {
                    self.change(|it| it.sort.column = None);
                }
                at
            }
            _ => {
                self.over = Over::Nothing;
                return Then::Draw;
            }
        };
        self.over = Over::Columns(at);
        Then::Draw
    }

    /// The packets behind the first row that is seen.
    fn behind(&mut self) {
        let (rows, _) = self.rows();
        let row = rows.get(self.look().down.min(rows.len().saturating_sub(1)));
        if let Some(words) = row.and_then(|it| self.view.find(it)) {
            self.show_packets(words);
        }
    }

    fn show_packets(&mut self, words: String) {
        self.filter = words;
        self.from = Some(self.view);
        self.view = View::Packets;
        self.change(|it| it.down = 0);
    }

    /// What led to packets holds for no other view.
    fn leave(&mut self) {
        if self.from.take().is_some() {
            self.filter.clear();
        }
    }

    fn turn(&mut self, by: usize) {
        self.shown = (self.shown + by) % self.nodes.len().max(1);
    }

    fn go(&mut self, by: usize) {
        self.leave();
        let views = self.views();
        let at = views.iter().position(|it| *it == self.view).unwrap_or(0);
        self.view = views[(at + by) % views.len()];
    }

    fn skip(&mut self, by_s: f64) {
        if let Some(tape) = &mut self.tape {
            tape.skip(by_s, &mut self.nodes);
        }
    }

    fn speed(&mut self, by: f64) {
        if let Some(tape) = &mut self.tape {
            tape.speed = (tape.speed * by).clamp(1.0 / 16.0, SPEED_MAX);
        }
    }

    /// The columns of the view.
    pub(crate) const fn all_columns(&self) -> &'static [Column] {
        self.view.columns()
    }
}
