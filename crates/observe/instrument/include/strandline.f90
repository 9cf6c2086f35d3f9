! Pre-stores for Fortran: move written data towards memory before anybody waits for it.
!
! The C object behind this module comes first, then the module, then the program:
!
!   cc -O2 -c strandline_fortran.c          (`strandline cc`, to see the pre-stores in a recording)
!   gfortran -O2 -c strandline.f90
!   gfortran -O2 -o app app.f90 strandline.o strandline_fortran.o
!
! After the innermost loop over i1 has written a column of u:
!
!   use strandline
!   call sl_prestore(loc(u(2, i2, i3)), 8_c_size_t * (n1 - 2), sl_clean)
!
! docs/man/prestore.md says when that helps and when it harms.
module strandline
  use, intrinsic :: iso_c_binding, only: c_int, c_intptr_t, c_ptr, c_size_t
  implicit none
  private
  public :: sl_demote, sl_clean, sl_prestore, sl_prestore_supported, sl_copy_skip, sl_fence

  ! Move the lines one step outwards, to where other cores find them sooner.
  integer(c_int), parameter :: sl_demote = 1
  ! Start to write the lines back to memory and keep them in the cache.
  integer(c_int), parameter :: sl_clean = 2

  ! Applies `op` to every cache line that holds one of the `size` bytes at `location`, which is what `loc` or `c_loc`
  ! gave. A hint: it waits for nothing, orders nothing and invalidates nothing.
  interface sl_prestore
    subroutine sl_prestore_address(location, size, op) bind(c, name="sl_fortran_prestore")
      import :: c_int, c_intptr_t, c_size_t
      integer(c_intptr_t), value :: location
      integer(c_size_t), value :: size
      integer(c_int), value :: op
    end subroutine
    subroutine sl_prestore_pointer(location, size, op) bind(c, name="sl_fortran_prestore")
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: location
      integer(c_size_t), value :: size
      integer(c_int), value :: op
    end subroutine
  end interface

  interface
    ! Copies `size` bytes from `src` to `dst`, variables or array elements that contiguous memory follows, by non-temporal stores.
    subroutine sl_copy_skip(dst, src, size) bind(c, name="sl_fortran_copy_skip")
      import :: c_size_t
      type(*), intent(inout) :: dst(*)
      type(*), intent(in) :: src(*)
      integer(c_size_t), value :: size
    end subroutine

    ! Orders this thread's stores, skipping ones among them, before its later stores.
    subroutine sl_fence() bind(c, name="sl_fortran_fence")
    end subroutine

    function sl_fortran_supported(op) bind(c, name="sl_fortran_supported") result(supported)
      import :: c_int
      integer(c_int), value :: op
      integer(c_int) :: supported
    end function
  end interface

contains

  ! Whether this processor has instructions for `op`. Where it has not, sl_prestore does nothing.
  logical function sl_prestore_supported(op)
    integer(c_int), intent(in) :: op
    sl_prestore_supported = sl_fortran_supported(op) /= 0
  end function
end module
