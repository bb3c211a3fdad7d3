! Exchanges by all three functions, also in place and from MPI_BOTTOM, and checks what it gets. Built
! three times: with mpif.h, with "use mpi" (MPI), with "use mpi_f08" (MPI_F08).
program fortran
#if defined(MPI_F08)
  use mpi_f08
  implicit none
  type(MPI_Datatype), allocatable :: types(:), there(:)
#elif defined(MPI)
  use mpi
  implicit none
  integer, allocatable :: types(:), there(:)
#else
  implicit none
  include 'mpif.h'
  integer, allocatable :: types(:), there(:)
#endif
  integer :: rank, n, i, wrong, all_wrong, ierror
  integer, allocatable, target :: out(:)
  integer, allocatable :: in(:), ones(:), at(:), bytes(:), zeros(:)
  integer(kind=MPI_ADDRESS_KIND) :: place(1)

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, n, ierror)
  allocate(out(n), in(n), ones(n), at(n), bytes(n), types(n), there(n), zeros(n))
  wrong = 0
  zeros = 0
  do i = 1, n
    ones(i) = 1
    at(i) = n - i        ! backwards
    bytes(i) = 4*(n - i)
    types(i) = MPI_INTEGER
  end do

  call fill(.false.)
  call MPI_Alltoall(out, 1, MPI_INTEGER, in, 1, MPI_INTEGER, MPI_COMM_WORLD, ierror)
  call check(.false., ierror)
  call fill(.false.)
  in = out
  call MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INTEGER, in, 1, MPI_INTEGER, MPI_COMM_WORLD, ierror)
  call check(.false., ierror)
  call fill(.true.)
  call MPI_Alltoallv(out, ones, at, MPI_INTEGER, in, ones, at, MPI_INTEGER, MPI_COMM_WORLD, ierror)
  call check(.true., ierror)
  call fill(.true.)
  call MPI_Alltoallw(out, ones, bytes, types, in, ones, bytes, types, MPI_COMM_WORLD, ierror)
  call check(.true., ierror)
  call fill(.true.)
  in = out
  call MPI_Alltoallw(MPI_IN_PLACE, ones, bytes, types, in, ones, bytes, types, MPI_COMM_WORLD, ierror)
  call check(.true., ierror)
  do i = 1, n ! types that are addresses of what is sent
    call MPI_Get_address(out(n - i + 1), place(1), ierror)
    call MPI_Type_create_hindexed(1, ones(1:1), place, MPI_INTEGER, there(i), ierror)
    call MPI_Type_commit(there(i), ierror)
  end do
  call fill(.true.)
  call MPI_Alltoallw(MPI_BOTTOM, ones, zeros, there, in, ones, bytes, types, MPI_COMM_WORLD, ierror)
  call check(.true., ierror)
#if defined(MPI_F08)
  call fill(.false.)
  call MPI_Alltoall(out, 1, MPI_INTEGER, in, 1, MPI_INTEGER, MPI_COMM_WORLD) ! ierror may be left out
  call check(.false., MPI_SUCCESS)
#endif

  call MPI_Allreduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (rank == 0) print '(a,i0)', 'wrong: ', all_wrong
  call MPI_Finalize(ierror)
  if (all_wrong /= 0) stop 1

contains

  ! The block for rank i - 1 stands at place i, or backwards.
  subroutine fill(backwards)
    logical, intent(in) :: backwards
    do i = 1, n
      out(merge(n - i + 1, i, backwards)) = 1000*rank + i - 1
    end do
    in = -1
  end subroutine

  subroutine check(backwards, code)
    logical, intent(in) :: backwards
    integer, intent(in) :: code
    if (code /= MPI_SUCCESS) wrong = wrong + 1
    do i = 1, n
      if (in(merge(n - i + 1, i, backwards)) /= 1000*(i - 1) + rank) wrong = wrong + 1
    end do
  end subroutine
end program
