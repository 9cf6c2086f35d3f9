//! Terminal summary, one self-contained HTML page, JSON.
