//! Network namespaces that leave nothing behind, and the programs that run in them.
//!
//! A [`Namespace`] has no name in the file system: an open descriptor is all that holds it, so
//! the kernel removes it, with its interfaces and routes, when the last process that has it ends,
//! however it ends. What runs in it is started by a [`Nursery`], whose processes can't outlive
//! it either.

use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use strait_core::time::Duration;

use super::netlink::Netlink;
use crate::error::{Doing, Error};

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// A new namespace with nothing in it but its loopback interface, which is up. The name is
    /// for error texts only.
    ///
    /// # Errors
    /// The privilege for it is missing.
    pub fn create(name: &str) -> Result<Self, Error> {
        let doing = || format!("create network namespace `{name}`");
        let make = || -> io::Result<File> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        };
        let file = on_thread(make).doing(doing)?;
        let namespace = Self {
            name: name.into(),
            file,
        };
        let mut netlink = namespace.netlink()?;
        let lo = netlink.link("lo")?;
        netlink.set_up(lo.index, "lo", true)?;
        Ok(namespace)
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// `/proc` isn't there.
    pub fn current() -> Result<Self, Error> {
        let file =
            File::open("/proc/thread-self/ns/net").doing(|| "open this network namespace")?;
        let name = String::from("current");
        Ok(Self { name, file })
    }

    /// Another hold on it.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn try_clone(&self) -> Result<Self, Error> {
        let doing = || format!("hold network namespace `{}`", self.name);
        Ok(Self {
            name: self.name.clone(),
            file: self.file.try_clone().doing(doing)?,
        })
    }

    /// A namespace that has a file, such as those that `ip netns` keeps in `/run/netns`.
    ///
    /// # Errors
    /// There is none at `path`.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let file = File::open(path).doing(|| format!("open network namespace `{name}`"))?;
        Ok(Self { name, file })
    }

    /// A path at which other programs can open it, for as long as this process holds it.
    pub fn path(&self) -> PathBuf {
        let descriptor = self.file.as_raw_fd();
        format!("/proc/{}/fd/{descriptor}", std::process::id()).into()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `inside` in this namespace, on a thread of its own: a thread is in one namespace, so
    /// the caller stays where it is. Sockets and interfaces made inside stay there wherever they
    /// are used later. Don't start programs inside: see [`Nursery`].
    ///
    /// # Errors
    /// The privilege for it is missing.
    ///
    /// # Panics
    /// When `inside` does.
    pub fn enter<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let enter_and_run = || {
            setns(&self.file, CloneFlags::CLONE_NEWNET)?;
            Ok::<T, Errno>(inside())
        };
        on_thread(enter_and_run).doing(|| format!("enter network namespace `{}`", self.name))
    }

    /// A conversation with the kernel about this namespace.
    ///
    /// # Errors
    /// As for [`Namespace::enter`] and [`Netlink::open`].
    pub fn netlink(&self) -> Result<Netlink, Error> {
        self.enter(Netlink::open)?
    }

    /// Writes a setting below `/proc/sys/net`, such as `ipv4/ip_forward`.
    ///
    /// # Errors
    /// There is no such setting, or it doesn't take the value.
    pub fn set(&self, key: &str, value: &str) -> Result<(), Error> {
        let path = Path::new("/proc/sys/net").join(key);
        let doing = || format!("set {key} in namespace `{}`", self.name);
        self.enter(|| fs::write(path, value))?.doing(doing)
    }

    /// Lets the namespace's kernel forward packets of both families.
    ///
    /// # Errors
    /// As for [`Namespace::set`].
    pub fn enable_forwarding(&self) -> Result<(), Error> {
        self.set("ipv4/ip_forward", "1")?;
        self.set("ipv6/conf/all/forwarding", "1")
    }

    /// Connects this namespace's new interface `here` with `peer`, new in `other`; both are up
    /// and have no addresses but link-local ones, without duplicate detection.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect(&self, here: &str, other: &Self, peer: &str) -> Result<(), Error> {
        let descriptor = Some(other.file.as_fd());
        self.netlink()?.add_veth(here, peer, descriptor)?;
        for (namespace, name) in [(self, here), (other, peer)] {
            namespace.set(&format!("ipv6/conf/{name}/accept_dad"), "0")?;
            let mut netlink = namespace.netlink()?;
            let link = netlink.link(name)?;
            netlink.set_up(link.index, name, true)?;
        }
        Ok(())
    }

    /// Gives an interface an address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add_address(&self, name: &str, address: IpAddr, length: u8) -> Result<(), Error> {
        let mut netlink = self.netlink()?;
        let link = netlink.link(name)?;
        netlink.add_address(link.index, name, address, length)
    }

    /// Adds a route by a gateway.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add_route(&self, prefix: IpAddr, length: u8, gateway: IpAddr) -> Result<(), Error> {
        self.netlink()?
            .add_route(prefix, length, Some(gateway), None)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Runs `job` on a fresh thread, and lets it panic here if it panics there.
fn on_thread<T: Send>(job: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(job).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

/// Starts programs that can't outlive it: when it is dropped, and when this process ends in any
/// way, the kernel kills them, their children and their children's children.
///
/// All are in one process namespace, whose first process does nothing but wait for our end: it
/// holds a pipe of ours, and the kernel sends it SIGKILL when the thread that made it ends. With
/// the first process the kernel ends its whole namespace. One thread starts everything, because
/// the namespace of new processes is a property of the thread.
#[derive(Debug)]
pub struct Nursery {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

struct Job {
    command: Command,
    reply: SyncSender<io::Result<Process>>,
}

/// A program started by a [`Nursery`].
#[derive(Clone, Debug)]
pub struct Process(Arc<Mutex<Child>>);

impl Nursery {
    /// An empty one.
    ///
    /// # Errors
    /// The privilege for it is missing.
    pub fn open() -> Result<Self, Error> {
        let (jobs, queue) = channel();
        let (ready, started) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("nursery".into())
            .spawn(move || match start_first() {
                Ok(first) => {
                    let _ = ready.send(Ok(()));
                    tend(&first, &queue);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            })
            .doing(|| "start a thread")?;
        let lost = |_| io::Error::other("its thread ended");
        let started = started.recv().map_err(lost).flatten();
        started.doing(|| "create a process namespace")?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Starts a program, in `namespace` if one is given.
    ///
    /// # Errors
    /// There is no such program, or the namespace can't be entered.
    pub fn spawn(
        &self,
        namespace: Option<&Namespace>,
        mut command: Command,
    ) -> Result<Process, Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        let doing = || format!("start `{program}`");
        if let Some(namespace) = namespace {
            let file = namespace.file.try_clone().doing(doing)?;
            before_exec(&mut command, move || {
                setns(&file, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
            });
        } else {
            // Makes the standard library fork in this thread, whose namespace counts.
            before_exec(&mut command, || Ok(()));
        }
        let (reply, result) = sync_channel(1);
        let lost = || io::Error::other("its nursery has ended");
        let jobs = self.jobs.as_ref().ok_or_else(lost).doing(doing)?;
        let sent = jobs.send(Job { command, reply });
        sent.map_err(|_| lost()).doing(doing)?;
        let result = result.recv().map_err(|_| lost()).doing(doing)?;
        result.doing(doing).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => error.with_remedy("is it installed, and in the PATH?"),
            _ => error,
        })
    }
}

/// Lets `command` write what it prints to the files `NAME.out` and `NAME.err` in a directory.
///
/// # Errors
/// The files can't be made.
pub fn capture(command: &mut Command, directory: &Path, name: &str) -> Result<(), Error> {
    for (end, is_error) in [("out", false), ("err", true)] {
        let path = directory.join(format!("{name}.{end}"));
        let file = File::create(&path).doing(|| format!("create {}", path.display()))?;
        if is_error {
            command.stderr(file);
        } else {
            command.stdout(file);
        }
    }
    Ok(())
}

impl Drop for Nursery {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been told on stderr already.
            let _ = thread.join();
        }
    }
}

impl Process {
    fn with<T>(&self, work: impl FnOnce(&mut Child) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its number, as this process sees it.
    pub fn id(&self) -> u32 {
        self.with(|child| child.id())
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// Those of `wait(2)`.
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        self.with(Child::try_wait)
    }

    /// Waits for its end, at most for `patience`.
    ///
    /// # Errors
    /// Those of `wait(2)`.
    pub fn wait(&self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        let end = std::time::Instant::now() + patience;
        loop {
            let status = self.try_wait()?;
            if status.is_some() || std::time::Instant::now() >= end {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends it a signal; one that has ended is left alone.
    ///
    /// # Errors
    /// Those of `kill(2)`.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        // Under the lock nobody reaps it meanwhile, so that its number can't be another's.
        self.with(|child| {
            if child.try_wait()?.is_some() {
                return Ok(());
            }
            Ok(kill(Pid::from_raw(child.id() as i32), signal)?)
        })
    }
}

/// Serves a nursery until it is dropped, then ends all that is left.
fn tend(first: &First, queue: &Receiver<Job>) {
    let mut started: Vec<Process> = Vec::new();
    while let Ok(mut job) = queue.recv() {
        started.retain(|process| matches!(process.try_wait(), Ok(None)));
        let process = job.command.spawn();
        let process = process.map(|child| Process(Arc::new(Mutex::new(child))));
        started.extend(process.as_ref().ok().cloned());
        let _ = job.reply.send(process);
    }
    let _ = kill(first.pid, Signal::SIGKILL);
    // The first process of a namespace only ends when all others have been reaped.
    while let Ok(WaitStatus::StillAlive) = waitpid(first.pid, Some(WaitPidFlag::WNOHANG)) {
        started.retain(|process| matches!(process.try_wait(), Ok(None)));
        thread::sleep(Duration::from_millis(1));
    }
}

/// The first process of a process namespace.
struct First {
    pid: Pid,
    /// Its closing ends the process.
    _pipe: io::PipeWriter,
}

#[allow(
    unsafe_code,
    reason = "what stands between fork and exec can't be checked by the compiler"
)]
fn before_exec(
    command: &mut Command,
    work: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the closures of this module make system calls only: they allocate nothing, take no
    // lock, and touch nothing of the parent's.
    unsafe { command.pre_exec(work) };
}

#[allow(
    unsafe_code,
    reason = "fork without exec, in a process that has threads"
)]
fn start_first() -> io::Result<First> {
    use std::os::fd::AsRawFd;

    unshare(CloneFlags::CLONE_NEWPID)?;
    let (reader, writer) = io::pipe()?;
    let keep = reader.as_raw_fd();
    // SAFETY: the child calls `wait_for_end` only, which never returns and which makes system
    // calls only: it allocates nothing and takes no lock.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Child => wait_for_end(keep),
        nix::unistd::ForkResult::Parent { child } => Ok(First {
            pid: child,
            _pipe: writer,
        }),
    }
}

/// The first process's life: no file but the pipe (ours, inherited, would stay open by it), no
/// zombies, and an end when the pipe's other end closes or the parent thread dies.
#[allow(unsafe_code, reason = "only system calls are allowed here")]
fn wait_for_end(pipe: i32) -> ! {
    use nix::libc;
    // SAFETY: all of these are plain system calls with numbers, but for `poll`, which gets one
    // valid `pollfd`. Closing descriptors is right: nothing here uses another one again.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        let keep = pipe as libc::c_uint;
        if keep > 0 {
            libc::syscall(libc::SYS_close_range, 0, keep - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, keep + 1, libc::c_uint::MAX, 0);
        loop {
            let mut fd = libc::pollfd {
                fd: pipe,
                events: libc::POLLIN,
                revents: 0,
            };
            if libc::poll(&raw mut fd, 1, -1) > 0 {
                libc::_exit(0);
            }
        }
    }
}
