//! What can be wrong with an archive of arrays.

use crate::text::Short;
use thiserror::Error;

/// An archive that cannot be read here, or is not what numpy writes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NpzError {
    /// Not a zip archive, or a damaged one.
    #[error("the archive is not valid: {what}")]
    Archive {
        /// What the reader of archives says.
        what: String,
    },
    /// A member that is not an array.
    #[error("member `{}` is not an array (want a name that ends in .npy)", Short(member))]
    Member {
        /// The member.
        member: String,
    },
    /// Two members of one name, of which a reader would keep one.
    #[error("member `{}` twice, of which only one could be read", Short(member))]
    Twice {
        /// The member.
        member: String,
    },
    /// Members that share bytes of the archive.
    #[error("members that overlap: the same bytes would be several arrays")]
    Overlap,
    /// A member that is neither stored nor deflated, or is encrypted.
    #[error("member `{}` is encrypted or not compressed by deflate, which is not read", Short(member))]
    Method {
        /// The member.
        member: String,
    },
}
