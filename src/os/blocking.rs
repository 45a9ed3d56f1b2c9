//! Blocking work beside the async threads.

/// Runs a closure that blocks (files, process table) on the blocking pool and returns its value.
///
/// A panic in the closure continues in the caller. While the runtime is shutting down the call may never return;
/// its caller is being dropped then as well.
///
/// # Cancel safety
/// Dropping the future does not stop a closure that has begun: its value is dropped.
pub async fn run<T, F>(work: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await,
        },
    }
}

/// Begins such work at once, for somebody who may want its value later. It ends by itself; dropping the handle drops only
/// the value.
pub fn begin<T, F>(work: F) -> tokio::task::JoinHandle<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    tokio::task::spawn_blocking(work)
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn gives_the_value_back() {
        assert_eq!(super::run(|| 6 * 7).await, 42);
    }

    #[tokio::test]
    async fn a_panic_continues_in_the_caller() {
        let handle = tokio::task::JoinSet::from_iter([super::run(|| panic!("inside"))])
            .join_next()
            .await;
        let error = handle.unwrap().unwrap_err();
        assert_eq!(error.into_panic().downcast_ref::<&str>(), Some(&"inside"));
    }
}
