//! Pictures of text that change as time goes by.

use std::time::Duration;

use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Modifier, Style};
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent};

use crate::app::Then;
use crate::terminal::Scene;

/// Its times in one of ours, at most.
pub const SPEED_MAX: f64 = 10_000.0;

/// A text for each moment, and how far it has been shown.
#[derive(Debug)]
pub struct Film<F> {
    text: F,
    at_s: f64,
    end_s: f64,
    speed: f64,
    paused: bool,
}

impl<F: Fn(f64) -> String> Film<F> {
    /// From 0 to `end_s`, of which `speed` seconds pass in one of ours.
    pub const fn new(text: F, end_s: f64, speed: f64) -> Self {
        Self {
            text,
            at_s: 0.0,
            end_s,
            speed,
            paused: false,
        }
    }
}

impl<F: Fn(f64) -> String> Scene for Film<F> {
    fn pass(&mut self, passed: Duration) -> Then {
        if self.paused {
            return Then::Stay;
        }
        self.at_s += passed.as_secs_f64() * self.speed;
        if self.at_s >= self.end_s {
            return Then::Quit;
        }
        Then::Draw
    }

    fn press(&mut self, key: KeyEvent) -> Then {
        if let Some(then) = Then::of_key(key) {
            return then;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::F(10) => return Then::Quit,
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('+') => self.speed = (self.speed * 2.0).min(SPEED_MAX),
            KeyCode::Char('-') => self.speed = (self.speed / 2.0).max(1.0 / SPEED_MAX),
            _ => return Then::Stay,
        }
        Then::Draw
    }

    fn draw(&mut self, buffer: &mut Buffer) {
        let area = buffer.area;
        let width = usize::from(area.width);
        let text = (self.text)(self.at_s);
        for (line, y) in text.lines().zip(0..area.height.saturating_sub(1)) {
            buffer.set_stringn(0, y, line, width, Style::new());
        }
        let state = if self.paused { "   PAUSED" } else { "" };
        let place = format!(
            "{:.0} of {:.0} s, speed {}{state}   space pause   + - speed   q end",
            self.at_s, self.end_s, self.speed
        );
        let foot = Style::new().add_modifier(Modifier::REVERSED);
        if let Some(y) = area.height.checked_sub(1) {
            buffer.set_stringn(0, y, place, width, foot);
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui_core::layout::Rect;
    use ratatui_crossterm::crossterm::event::KeyModifiers;

    use super::*;

    fn shown(film: &mut Film<impl Fn(f64) -> String>) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 60, 3));
        film.draw(&mut buffer);
        buffer.content().iter().map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn a_film_goes_on_is_paused_and_ends() {
        let mut film = Film::new(|at_s| format!("at {at_s:.0}"), 100.0, 20.0);
        let second = Duration::from_secs(1);
        let key = |code| KeyEvent::new(KeyCode::Char(code), KeyModifiers::NONE);
        assert_eq!(film.pass(second), Then::Draw);
        assert!(
            shown(&mut film).starts_with("at 20 "),
            "{}",
            shown(&mut film)
        );
        assert_eq!(film.press(key(' ')), Then::Draw);
        assert_eq!(film.pass(second), Then::Stay);
        assert!(shown(&mut film).contains("PAUSED"));
        film.press(key(' '));
        film.press(key('+'));
        assert_eq!(film.pass(second), Then::Draw);
        assert!(
            shown(&mut film).contains("60 of 100 s, speed 40"),
            "{}",
            shown(&mut film)
        );
        assert_eq!(film.press(key('q')), Then::Quit);
        assert_eq!(film.pass(second), Then::Quit);
    }
}
