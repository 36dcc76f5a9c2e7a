//! What a calculation costs, for tests that verify how the cost grows with the input.

use std::fs;
use std::time::Duration;

/// The clock advances in steps of a few milliseconds.
const MEASURED: Duration = Duration::from_millis(100);

/// CPU time of one run of a calculation on this thread, which does not depend on the load of the machine.
///
/// # Panics
///
/// If the system does not report the CPU time of threads.
pub fn cpu_time(mut run: impl FnMut()) -> Duration {
    let (begun, mut runs) = (thread_time(), 0);
    while thread_time().saturating_sub(begun) < MEASURED {
        run();
        runs += 1;
    }
    thread_time().saturating_sub(begun) / runs
}

fn thread_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("the system reports CPU times");
    let nanoseconds = text.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanoseconds.expect("the first field is a number"))
}
