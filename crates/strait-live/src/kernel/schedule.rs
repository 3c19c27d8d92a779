//! How soon the system runs a program whose moments matter.

use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl;

/// Asks for timers that ring when they are due: the kernel may otherwise add 50 µs to each wait,
/// to save power.
pub fn exact_timers() {
    // Without it a program is a little late, no worse.
    let _ = prctl::set_timerslack(1);
}

/// Asks to run ahead of all ordinary programs whenever there is something to do (`SCHED_FIFO` of
/// sched(7), lowest priority; programs started from here don't inherit it). A line of octets
/// notices when others are served first: at 9600 baud, after 2 ms.
///
/// It is for programs that work little between their waits. The kernel leaves one twentieth of each
/// second to the others whatever happens.
///
/// # Errors
/// It takes root, `CAP_SYS_NICE` or a limit `RLIMIT_RTPRIO`.
pub fn go_first() -> Result<(), Errno> {
    let lowest = libc::sched_param { sched_priority: 1 };
    set_scheduler(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, lowest)
}

#[allow(unsafe_code, reason = "sched_setscheduler has no safe wrapper")]
fn set_scheduler(policy: libc::c_int, settings: libc::sched_param) -> Result<(), Errno> {
    // SAFETY: zero is the calling thread, and the pointer is to plain data that outlives the call.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const settings) };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn going_first_is_granted_or_refused_and_children_do_not_inherit() {
        let other = std::thread::spawn(|| match go_first() {
            Ok(()) => {
                let policy = || {
                    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
                    let mut fields = stat.rsplit(')').next().unwrap().split_whitespace();
                    fields.nth(38).unwrap().to_owned()
                };
                assert_eq!(policy(), libc::SCHED_FIFO.to_string());
                let child = std::thread::spawn(policy).join().unwrap();
                assert_eq!(child, libc::SCHED_OTHER.to_string());
            }
            Err(refused) => assert_eq!(refused, Errno::EPERM),
        });
        other.join().unwrap();
    }
}
