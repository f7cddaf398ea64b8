"""What the peers share: the question and how its answer is shown.

The question is that of `nsys stats --report cuda_gpu_kern_sum`: for every kernel name how often it
ran, and the total, mean, median, least and greatest time. Each script prints the names with the most
time, so that no engine can leave work out.
"""

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def show(rows):
    for name, calls, total, mean, median, least, greatest in rows[:20]:
        print(f"{total:>14} {calls:>9} {mean:>12.1f} {median:>12.1f} {least:>10} {greatest:>10} {name[:60]}")
    print(len(rows), "names")
