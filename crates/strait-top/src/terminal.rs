//! The terminal: it is given back as it was, whatever happens.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::os::fd::AsFd;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, raise};
use nix::sys::termios::tcdrain;
use ratatui_core::buffer::Buffer;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::event::{self, Event, KeyEvent};
use ratatui_crossterm::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui_crossterm::crossterm::{cursor, execute};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::app::{App, Heard, Then};
use crate::draw::draw;
use crate::film::Film;

/// Between two looks at what came, keys excepted.
const LOOK: Duration = Duration::from_millis(100);
/// How long it may take to end when the terminal is gone.
const GONE: Duration = Duration::from_secs(1);

/// What a screen is written through: a whole picture at once.
type Screen = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// Why this terminal can't show it; nothing if it can.
pub fn unable() -> Option<&'static str> {
    let term = std::env::var("TERM").unwrap_or_default();
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Some("stdin and stdout are no terminal");
    }
    matches!(term.as_str(), "" | "dumb").then_some("this terminal can't move its cursor (TERM)")
}

/// Whether colours are unwanted, or unknown to the terminal.
pub fn is_plain() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
    unwanted || std::env::var("TERM").is_ok_and(|it| it.starts_with("vt"))
}

/// A terminal in another mode, until this is dropped.
struct Taken;

impl Taken {
    fn take() -> io::Result<Self> {
        enable_raw_mode()?;
        let taken = Self;
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(taken)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}

/// What has the whole terminal for a while.
pub(crate) trait Scene {
    /// So much time went by.
    fn pass(&mut self, passed: Duration) -> Then;
    fn press(&mut self, key: KeyEvent) -> Then;
    fn draw(&mut self, buffer: &mut Buffer);
    /// What came from elsewhere.
    fn listen(&mut self) -> Then {
        Then::Stay
    }
}

struct Told<'a>(&'a mut App, &'a Receiver<Heard>);

impl Scene for Told<'_> {
    fn pass(&mut self, passed: Duration) -> Then {
        Then::of(self.0.pass(passed))
    }

    fn press(&mut self, key: KeyEvent) -> Then {
        self.0.press(key)
    }

    fn draw(&mut self, buffer: &mut Buffer) {
        draw(self.0, buffer);
    }

    fn listen(&mut self) -> Then {
        let mut news = false;
        for heard in self.1.try_iter() {
            news |= self.0.hear(heard);
        }
        Then::of(news)
    }
}

/// Shows it until somebody ends it. `heard` brings what gateways say; each `interval` a recording
/// goes on.
///
/// # Errors
/// The terminal is gone.
pub fn show(app: &mut App, heard: &Receiver<Heard>, interval: Duration) -> io::Result<()> {
    run(&mut Told(app, heard), interval)
}

/// Plays a film until it or somebody ends it.
///
/// # Errors
/// The terminal is gone.
pub fn play(film: &mut Film<impl Fn(f64) -> String>) -> io::Result<()> {
    run(film, LOOK)
}

fn run(scene: &mut impl Scene, interval: Duration) -> io::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        // The second of them ends it at once, if the terminal takes nothing.
        flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    let mut gone = Signals::new([SIGHUP])?;
    thread::spawn(move || {
        if gone.forever().next().is_some() {
            thread::sleep(GONE);
            give_back();
            std::process::exit(1);
        }
    });
    let before = panic::take_hook();
    let ends = Arc::clone(&stop);
    panic::set_hook(Box::new(move |panic| {
        ends.store(true, Ordering::Relaxed);
        give_back();
        before(panic);
    }));
    let mut taken = Some(Taken::take()?);
    let mut screen = Terminal::new(CrosstermBackend::new(BufWriter::new(io::stdout())))?;
    let mut played = Instant::now();
    let mut then = Then::Redraw;
    while !stop.load(Ordering::Relaxed) {
        let passed = played.elapsed();
        if passed >= interval {
            played = Instant::now();
            then = then.or(scene.pass(passed));
        }
        then = then.or(scene.listen());
        match then {
            Then::Quit => break,
            Then::Suspend => {
                drop(taken.take());
                raise(Signal::SIGTSTP)?;
                taken = Some(Taken::take()?);
                anew(&mut screen)?;
            }
            Then::Redraw => anew(&mut screen)?,
            Then::Draw | Then::Stay => {}
        }
        if then != Then::Stay {
            show_once(&mut screen, scene)?;
        }
        then = keys(scene)?;
    }
    drop(taken);
    Ok(())
}

/// Forgets what stands on the screen. `Terminal::clear` would ask it where its cursor is, which not
/// every one answers.
fn anew(screen: &mut Screen) -> io::Result<()> {
    let area = screen.size()?.into();
    screen.resize(area)
}

/// Draws what changed, and waits until the line has taken it: keys answer at once, however slow it
/// is.
fn show_once(screen: &mut Screen, scene: &mut impl Scene) -> io::Result<()> {
    screen.draw(|frame| scene.draw(frame.buffer_mut()))?;
    screen.backend_mut().flush()?;
    match tcdrain(io::stdout()) {
        Err(Errno::EINTR) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What the keys that were pressed lead to, or that there were none for a while.
fn keys(scene: &mut impl Scene) -> io::Result<Then> {
    let mut then = Then::Stay;
    wait()?;
    while event::poll(Duration::ZERO)? {
        let one = match event::read()? {
            Event::Key(key) => scene.press(key),
            Event::Resize(..) => Then::Redraw,
            _ => Then::Stay,
        };
        match one {
            Then::Quit | Then::Suspend => return Ok(one),
            Then::Redraw => then = Then::Redraw,
            one => then = then.or(one),
        }
    }
    Ok(then)
}

/// Waits for keys for a while. Of a terminal that is gone `event::poll` would read for ever.
fn wait() -> io::Result<()> {
    let stdin = io::stdin();
    let mut keys = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO);
    match poll(&mut keys, patience) {
        Err(Errno::EINTR) => return Ok(()),
        other => other?,
    };
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    let found = keys[0].revents().unwrap_or(PollFlags::empty());
    if found.intersects(gone) {
        return Err(io::Error::new(
            io::ErrorKind::BrokenPipe,
            "the terminal is gone",
        ));
    }
    Ok(())
}
