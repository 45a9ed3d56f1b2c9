//! Handlers, by resource: convert params, call the layer below once, convert back. Domain logic does not belong here.

pub(super) mod ask;
pub(super) mod cron;
pub(super) mod file;
pub(super) mod host;
pub(super) mod session;
pub(super) mod shell;
pub(super) mod task;
pub(super) mod turn;

use longshore_protocol::value::page::Page;

use super::error::invalid_params;
use crate::kernel::fault::Fault;
use crate::kernel::limits::{PAGE, PAGE_MAX};

/// A page of a list that is at hand as a whole; its cursors are places in it.
fn page<T>(items: Vec<T>, cursor: Option<&str>, limit: Option<u32>) -> Result<Page<T>, Fault> {
    let start = match cursor.map(str::parse::<usize>) {
        None => 0,
        Some(Ok(start)) if start <= items.len() => start,
        Some(_) => {
            let expected = "a cursor of an earlier page";
            return Err(invalid_params(
                "/cursor",
                expected,
                "The cursor is none that this list gave.",
            ));
        }
    };
    let end = start + page_limit(limit);
    let next_cursor = (end < items.len()).then(|| end.to_string());
    let items = items.into_iter().skip(start).take(end - start).collect();
    Ok(Page { items, next_cursor })
}

fn page_limit(limit: Option<u32>) -> usize {
    limit.map_or(PAGE, |limit| (limit as usize).clamp(1, PAGE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_one_another() {
        let all: Vec<u32> = (0..120).collect();
        let mut seen = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = page(all.clone(), cursor.as_deref(), None).unwrap();
            assert!(page.items.len() <= PAGE);
            seen.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, all);
        assert_eq!(
            page(all.clone(), Some("100"), Some(7)).unwrap().items,
            (100..107).collect::<Vec<_>>()
        );
        assert_eq!(page(all.clone(), None, Some(0)).unwrap().items, [0]);
        for cursor in ["x", "-1", "121"] {
            assert_eq!(
                page(all.clone(), Some(cursor), None).unwrap_err().data["path"],
                "/cursor"
            );
        }
    }
}
